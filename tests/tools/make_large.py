#!/usr/bin/env python3
"""make_large.py -- a file of any size in any format that opmeter reads, to see what reading it takes.

  make_large.py KIND BYTES FILE     about so many bytes
  make_large.py --list              the kinds: a format, or format:variant

A kind without a variant looks as its producer writes it: few names, arguments that differ in numbers. Of the
variants, "short" has the shortest events that there are, "unique" a name of its own for every one, and "echo"
events of a few bytes that all refer to one long text.
"""
import sys

from pbwire import block, number

KINDS = {}


def kind(name):
    def add(function):
        KINDS[name] = function
        return function
    return add


def text(head, piece, tail=""):
    """A file of pieces: piece(i) is the text of number i."""
    def write(out, size):
        out.write(head.encode())
        i = done = 0
        while done < size:
            data = piece(i).encode()
            out.write(data)
            done += len(data)
            i += 1
        out.write(tail.encode())
    return write


KINDS["chrome"] = text("[\n", lambda i: '{"ph":"X","cat":"op","name":"layer%d/conv","pid":1,"tid":%d,"ts":%d.%03d,"dur":%d,'
                       '"args":{"step":%d,"bytes":%d}},\n' % (i % 300, i % 4, i * 7, i % 1000, i % 6, i // 300, i * 37 % 5000), "{}]\n")
KINDS["chrome:short"] = text("[\n", lambda i: '{"ph":"X","ts":%d,"dur":1},' % i, "{}]\n")
KINDS["chrome:unique"] = text("[\n", lambda i: '{"ph":"X","name":"n%d","pid":1,"tid":1,"ts":%d,"dur":1},\n' % (i, i), "{}]\n")
KINDS["kineto"] = text('{"schemaVersion":1,"deviceProperties":[],"traceEvents":[\n', lambda i:
                       '{"ph":"X","cat":"cpu_op","name":"aten::op%d","pid":77,"tid":77,"ts":%d.%03d,"dur":%d.250,"args":'
                       '{"External id":%d,"Record function id":0,"Ev Idx":%d,"Input Dims":[[8,%d],[]],"Input type":["float",""]}},\n'
                       % (i % 200, i * 9, i % 1000, i % 8, i + 5, i, i % 64), "{}]}\n")
KINDS["onnxruntime"] = text('[\n{"cat":"Session","pid":3,"tid":3,"dur":5,"ts":1,"ph":"X","name":"model_loading_uri","args":{}},\n', lambda i:
                            '{"cat":"Node","pid":3,"tid":3,"dur":%d,"ts":%d,"ph":"X","name":"conv%d_kernel_time","args":{"op_name":"Conv",'
                            '"provider":"CPUExecutionProvider","node_index":"%d","input_type_shape":[{"float":[1,64,%d,56]}],"output_size":"802816"}},\n'
                            % (i % 90, i * 100, i % 150, i % 150, i % 150), "{}]\n")
KINDS["speedscope"] = text('{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":['
                           + ",".join('{"name":"f%d"}' % i for i in range(200)) +
                           ']},"profiles":[{"type":"evented","name":"t","unit":"nanoseconds","startValue":0,"endValue":1,"events":[\n',
                           lambda i: '{"type":"%s","frame":%d,"at":%d},\n' % ("OC"[i % 2], i // 2 % 200, i * 3), '{"type":"O","frame":0,"at":1}]}]}\n')
KINDS["onednn"] = text("onednn_verbose,info,oneDNN v2.6.3 (commit N/A)\n", lambda i:
                       "onednn_verbose,%d.%06d,exec,cpu,matmul,brg:avx512_core,undef,src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 "
                       "dst_f32::blocked:ab:f0,,,%dx64:64x32:%dx32,%d.5\n" % (1794726041662 + i, i % 1000000, i % 99 + 1, i % 99 + 1, i % 9))
KINDS["openvino"] = text("layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms);\n", lambda i:
                         "layer%d;EXECUTED;Convolution;jit_avx512_FP32;0.%04d;0.%04d;\n" % (i, i % 9999, i % 9999))
KINDS["furiosa-csv"] = text("trace_id,parent_span_id,span_id,start,end,cat,name,thread.id,dram_base,pe_index,execution_index,"
                            "instruction_index,operator_index\n", lambda i:
                            "t%d,%016x,%016x,%d,%d,NPU,Conv%d,45,0,0,%d,%d,\n" % (i // 100, i // 100 * 100, i + 1, 10**18 + i * 1000,
                                                                                10**18 + i * 1000 + 900, i % 50, i // 100, i % 100))
KINDS["neural-engine"] = text("weight shape,90% 4x1 perf ratio,80% 4x1 perf ratio,70% 4x1 perf ratio,others\n256x256,4.0,4.0,4.0,1\noperator type,post op,operator name,input tensor name,input shape,input dtype,output tensor name,output shape,"
                              "output dtype,weight shape,weight sparse ratio,sparse support,operator latency (ms),aim to weight sparse ratio,"
                              "sparse kernel pref ratio,aim to sparse latency(ms)\n", lambda i:
                              "InnerProduct,,Add_%d,g:0;w%d:0,8x256;256x256,fp32;fp32,Add_%d:0,8x256,fp32,256x256,0.00%%,true,0.4%02d, ,,0.4\n"
                              % (i, i, i, i % 100))
KINDS["tensorrt"] = text('[\n{ "count" : 100 }\n', lambda i: ', { "name" : "Conv_%d", "timeMs" : %d.5, "averageMs" : 0.0%d, "percentage" : 0.1 }\n'
                         % (i, i % 90, i % 90), "]\n")
KINDS["tensorflow"] = text('step_stats { dev_stats { device: "/device:CPU:0"\n', lambda i:
                           'node_stats { node_name: "conv%d" all_start_micros: %d op_end_rel_micros: %d all_end_rel_micros: %d '
                           'timeline_label: "conv%d = Conv2D(a, b)" thread_id: %d }\n'
                           % (i % 200, 16 * 10**14 + i * 50, i % 40, i % 40 + 1, i % 200, i % 4), "} }\n")


def packets(out, size, head, packet):
    out.write(head)
    i = done = 0
    while done < size:
        data = packet(i)
        out.write(data)
        done += len(data)
        i += 1


def perfetto_head(*interned):
    track = block(60, number(1, 1) + block(2, b"main"))
    return block(1, track + number(10, 1)) + block(1, number(10, 1) + number(13, 1) + block(12, b"".join(interned)))


def perfetto_event(i, body):
    return block(1, number(8, i * 500) + number(10, 1) + number(13, 2) + block(11, number(9, 1 + i % 2) + number(11, 1) + body))


PERFETTO_NAMES = [block(2, number(1, k + 1) + block(2, b"operator %d" % k)) for k in range(200)]
PERFETTO_KEYS = [block(3, number(1, 1) + block(2, b"bytes")), block(3, number(1, 2) + block(2, b"kernel"))]


@kind("perfetto")
def perfetto(out, size):
    packets(out, size, perfetto_head(*PERFETTO_NAMES, *PERFETTO_KEYS), lambda i: perfetto_event(
        i, number(10, i // 2 % 200 + 1) + (block(4, number(1, 1) + number(4, i * 37 % 5000)) if i % 2 == 0 else b"")))


@kind("perfetto:short")
def perfetto_short(out, size):
    packets(out, size, perfetto_head(*PERFETTO_NAMES), lambda i: perfetto_event(i, number(10, 1)))


@kind("perfetto:echo")
def perfetto_echo(out, size):
    word = block(29, number(1, 1) + block(2, b"x" * (size // 2)))
    packets(out, size // 2, perfetto_head(*PERFETTO_NAMES, *PERFETTO_KEYS, word), lambda i: perfetto_event(
        i, number(10, 1) + block(4, number(1, 1) + number(4, i)) + block(4, number(1, 2) + number(17, 1))))


def entry(field, key, value):
    return block(field, number(1, key) + block(2, value))


def xplane(plane, event, metadata, stats):
    """A plane: the names of its statistics, its metadata, and one line of events."""
    def write(out, size):
        head = number(1, 1) + block(2, plane)
        for key, name in enumerate(stats, 1):
            head += entry(5, key, number(1, key) + block(2, name(size) if callable(name) else name))
        for key, (name, display, more) in enumerate(metadata, 1):
            head += entry(4, key, number(1, key) + block(2, name) + (block(4, display) if display else b"") + more)
        line = [number(1, 7) + block(2, b"XLA Ops" if plane.startswith(b"/device") else b"python") + number(3, 1700000000000000000)]
        done, i = len(head), 0
        while done < size:
            data = block(4, event(i))
            line.append(data)
            done += len(data)
            i += 1
        out.write(block(1, head + block(3, b"".join(line))))
    return write


def timing(i, of):
    return number(1, i % of + 1) + number(2, i * 90000) + number(3, 80000)


HLO = b"%%fusion.%d = bf16[8,128]{1,0:T(8,128)} fusion(bf16[8,64]{1,0} %%p0, f32[64,128]{1,0} %%p1), kind=kLoop, calls=%%fused_computation.%d, metadata={}"
KINDS["xplane"] = xplane(b"/device:TPU:0", lambda i: timing(i, 200) + block(4, number(1, 1) + number(3, i * 90000)) + block(4, number(1, 2) + number(3, 80000 + i % 999)),
                         [(HLO % (i, i), b"fusion.%d" % i, block(5, number(1, 3) + number(7, 4))) for i in range(200)],
                         [b"device_offset_ps", b"device_duration_ps", b"tf_op", b"jit(f)/jit(main)/dot_general[x]:"])
KINDS["xplane:host"] = xplane(b"/host:CPU", lambda i: timing(i, 200), [(b"$train.py:%d step" % i, b"", b"") for i in range(200)], [])
KINDS["xplane:unique"] = xplane(b"/device:TPU:0", lambda i: timing(i, 1) + block(4, number(1, 1) + block(5, b"name %d" % i)), [(HLO % (1, 1), b"fusion", b"")], [b"label"])
KINDS["xplane:echo"] = xplane(b"/device:TPU:0", lambda i: timing(i, 1) + block(4, number(1, 1) + block(5, b"%d" % i)) + block(4, number(1, 2) + number(7, 3)),
                              [(HLO % (1, 1), b"fusion", block(5, number(1, 2) + number(7, 3)))], [b"label", b"text", lambda size: b"x" * (size // 2)])


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(KINDS))
        return
    if len(sys.argv) != 4 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    with open(sys.argv[3], "wb") as out:
        KINDS[sys.argv[1]](out, int(sys.argv[2]))


if __name__ == "__main__":
    main()
