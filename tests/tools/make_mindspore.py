#!/usr/bin/env python3
"""make_mindspore.py -- write small MindSpore profiler folders, in the formats that its versions wrote.

usage: make_mindspore.py raw DIR [DEVICE] | new DIR | parsed DIR | gpu DIR | kernels DIR

raw: what an Ascend device and the framework leave behind (r0.5 to 1.x). new: the later numbering of
step points. parsed: the tables of MindInsight. gpu: a GPU's timeline. kernels: ASCEND_PROFILER_OUTPUT.
"""
import json
import struct
import sys
from pathlib import Path

T0 = 100000000  # ticks of 10 ns
OPS = [("Default/net/Conv2D-op1", "Conv2D", 30001, 900),
       ("Default/net/ReLU-op2", "ReLU", 30002, 100),
       ("Gradients/Default/net/MatMul-op3", "MatMul", 7, 400)]  # below 25000: unique in its stream
STREAM = 5
STEP = 5000


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def hwts_record(kind, task, ticks, stream):
    return struct.pack("<BBHHHQI", kind, 0, 0, 0, task, ticks, stream).ljust(64, b"\0")


def hwts(steps):
    """Start and end of every task; a task of nobody; odd ones."""
    out = b""
    for step in range(steps):
        at = T0 + step * STEP + 100
        for _, _, task, dur in OPS:
            out += hwts_record(0, task, at, STREAM) + hwts_record(1, task, at + dur, STREAM)
            at += dur + 10
        out += hwts_record(0, 40000, at, 9) + hwts_record(1, 40000, at + 50, 9)
    out += hwts_record(2, 30001, T0, STREAM)   # start of a block
    out += hwts_record(6, 30001, T0, STREAM)   # no such kind
    out += hwts_record(0, 30001, T0 + 90000, STREAM)  # never ends
    out += hwts_record(1, 40001, T0 + 90000, 9)       # never began
    out += hwts_record(1, 30001, 1 << 62, STREAM)     # a time beyond reason
    return out + b"\x01" * 20                  # cut off


def training_trace(steps, tags):
    """Points of steps, two collectives in turn on one stream; the last step has no backward point."""
    fp, bp, end, first = tags
    out = []
    for step in range(steps):
        at = T0 + step * STEP
        out += [(0, 5, at + 10), (fp, 5, at + 100), (first, 8, at + 700), (first + 1, 8, at + 900),
                (first + 2, 8, at + 1000), (first + 3, 8, at + 1300), (bp, 5, at + 1600),
                (end, 5, at + STEP)]
    at = T0 + steps * STEP
    out += [(0, 5, at), (fp, 5, at + 100), (end, 5, at + 200)]
    return b"".join(struct.pack("<QHHQ", tag, 0, stream, ticks) for tag, stream, ticks in out)


def pipeline():
    def op(ident, kind, workers, size, children):
        metrics = size and {"output_queue": {"size": size, "length": 16}}
        return {"op_id": ident, "op_type": kind, "num_workers": workers, "metrics": metrics,
                "children": children}
    return json.dumps({"sampling_interval": 10, "op_info": [
        op(3, "TFReader", 8, [16, 16, 15], None), op(2, "MapOp", 4, None, [3]),
        op(1, "BatchOp", 2, [0, 1, 2], [2]), op(0, "EpochCtrlOp", 1, None, [1])]})


def raw(folder, dev):
    slice0 = f"{dev}.slice_0"
    records = hwts(3)
    tag = "profiler_default_tag"
    # In two pieces that part a record.
    put(folder / f"hwts.log.data.45.dev.{tag}.{dev}.slice_0", records[:1000])
    put(folder / f"hwts.log.data.45.dev.{tag}.{dev}.slice_1", records[1000:])
    put(folder / "data" / f"training_trace.46.dev.{tag}.{slice0}",
        training_trace(3, (1, 2, 255, 3)) + b"\0" * 7)
    put(folder / f"Framework.host.vm.graph_desc_info.{slice0}", "".join(
        f'op_name:{name} op_type:{kind} input_id:0 input_format:NC1HWC0 input_data_type:39 '
        f'input_shape:"32,3,224,224" input_id:1 input_format:DefaultFormat input_data_type:40 '
        f'input_shape:"" output_id:0 output_format:DefaultFormat output_data_type:31 '
        f'output_shape:"32,64"\n' for name, kind, _, _ in OPS) + "nonsense\n")
    put(folder / f"Framework.host.vm.task_desc_info.{slice0}", "".join(
        f"{name} 32 {task} {STREAM}\n" for name, _, task, _ in OPS))
    put(folder / f"Framework.host.vm.point.{slice0}",
        "1 Default/net/Conv2D-op1\n2 Gradients/Default/net/MatMul-op3\n"
        "3 Default/net/AllReduce-op9\n4 Default/net/AllReduce-op9\n")
    us = T0 // 100
    put(folder / f"DATA_PREPROCESS.dev.AICPU.{slice0}",
        f"[1] Node:InitData, Run tart:{us}, Run end:{us + 20}\0"
        "Thread[ 1] process device[0]:aicpu[ 0] task end, tickBeforeRun=1,tickAfterRun=2, "
        "dispatchTime=10 us, totalTime=157 us.\0"
        f"[2] Node:Default/TruncatedNormal-op0, Run start:{us + 30}, Run end:{us + 70}\0"
        f"Thread[ 2] process device[0]:aicpu[ 0] task end, tickBeforeRun={T0 + 900},"
        f"tickAfterRun={T0 + 950}, dispatchTime=5 us, totalTime=9 us.\0nothing\0")
    put(folder / f"DATA_PREPROCESS.dev.AICPUMI.{slice0}",
        f"Node:GetNext_dequeue_wait, Run start:{us + 1}, Run end:{us + 2}, queue size:3\0"
        f"Node:GetNext_dequeue_wait, Run start:{us + 51}, Run end:{us + 61}, queue size:0\0")
    put(folder / f"DATA_PREPROCESS.dev.TDT.{slice0}",
        f"[{us + 3}] Enqueue data to dp, source:x, index:1, size:2\0")
    put(folder / f"host_start.log.{dev}",
        "[Device0]\nclock_realtime: 1591183963784568740\nclock_monotonic_raw: 261003032627\n")
    put(folder / f"pipeline_profiling_{dev}.json", pipeline())
    put(folder / f"device_queue_profiling_{dev}.txt",
        "0 0 1 7 1591183963800\n0 1 1 2 1591183963800\n0 2 1 9 1591183963800\n"
        "1 16 1 0 1591183963800\n1 16 2 16 1591183963850\n5 0 0 0\nnonsense\n")
    put(folder / f"minddata_cpu_utilization_{dev}.json", json.dumps({
        "sampling_interval": 100, "cpu_processor_num": 8, "time_stamp": [1, 2],
        "device_info": {"user_utilization": [10, 20], "context_switch_count": [5, 6]},
        "process_info": {"sys_utilization": [1, 2]},
        "op_info": [{"op_id": 1, "metrics": {"user_utilization": [3, 4]}}]}))
    put(folder / f"Framework.host.vm.graph_desc_info.{slice0}.done", "")
    put(folder / "notes.txt", "by hand\n")


def new(folder):
    tag = "profiler_default_tag"
    put(folder / f"training_trace.46.dev.{tag}.0.slice_0", training_trace(2, (2, 3, 4, 10000)))
    put(folder / f"hwts.log.data.45.dev.{tag}.0.slice_0", hwts(1)[:64 * 8])


def parsed(folder):
    step = ("step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,"
            "tail,stream_8_parallel_0_start_point,stream_8_parallel_0_end_point,stream_8_parallel_0\n")
    for n in range(3):
        at = T0 + n * STEP
        start = at + (100 if n == 0 else 0)
        step += (f"{n + 1},{start},{at + STEP},{at + STEP - start},{at + 100},{at + 1600},"
                 f"{at + 100 - start},1500,{STEP - 1600},{at + 700},{at + 900},200\n")
    put(folder / "step_trace_raw_0_detail_time.csv", step + "-,0,0,0,0,0,0,0,0,0,0,0\n")
    info = json.dumps({"input_0": {"format": "NC1HWC0", "data_type": "NUMBER_TYPE_FLOAT16",
                                   "shape": "32,3"}}).replace('"', '""')
    put(folder / "framework_raw_0.csv",
        "task_id,stream_id,block_dim,full_op_name,op_name,op_type,subgraph,op_info\n" + "".join(
            f'{task},{STREAM},32,{name},{name.split("/")[-1]},{kind},Default,"{info}"\n'
            for name, kind, task, _ in OPS))
    events, at = [], 0
    text = "op_name, stream_id, start_time(ms), duration(ms)\n"
    for name, kind, _, dur in OPS:
        text += f"{name},{STREAM},{(T0 + 100 + at) / 1e5},{dur / 1e5}\n"
        events.append({"name": name.split("/")[-1], "ph": "X", "tid": STREAM, "ts": at / 100,
                       "dur": dur / 100, "pid": 0, "args": {"type": kind, "fullname": name}})
        at += dur + 10
    put(folder / "output_timeline_data_0.txt", text)
    # As r0.5 ends it.
    put(folder / "timeline_display_0.json",
        "[" + "".join(json.dumps(e) + "," for e in events) + "]")
    put(folder / "min_cycle_counter_0.txt", f"{T0 + 100}.0")
    put(folder / "aicore_intermediate_0_detail.csv", "full_op_name,execution_time\n" + "".join(
        f"{name},{dur / 1e5}\n" for name, _, _, dur in OPS))
    us = T0 // 100
    put(folder / "aicpu_intermediate_0.csv",
        "serial_number,kernel_type,total_time,dispatch_time,execution_time,run_start,run_end\n"
        f"1,InitData,0.157,0.01,0.02,{us},{us + 20}\n")
    put(folder / "minddata_aicpu_0.txt",
        f"GetNext_dequeue_wait {us + 1} {us + 2} 3\nGetNext_dequeue_wait {us + 9} {us + 9} 0\n")
    put(folder / "minddata_pipeline_raw_0.csv",
        "op_id,op_type,num_workers,output_queue_size,output_queue_average_size,output_queue_length,"
        "output_queue_usage_rate,sample_interval,parent_id,children_id\n"
        '0,Batch,4,,,,,10,,[1]\n1,TFReader,4,"[10, 20, 30]",20.0,64,0.3125,10,0,\n')
    put(folder / "dataset_iterator_profiling_0.txt", "1 64 1 3\n")
    put(folder / "hccl_raw_0.csv",
        "step_num,communication_cost,wait_cost,link_info,communication_operator_cost\n"
        '1,2.5,270.25,"{}","{}"\n2,2.25,1,"{}","{}"\n-,2,2,"{}","{}"\n')
    put(folder / "flops_summary_0.json", '{"FLOPs": 8167.743, "FLOPS": 9868.936}')
    put(folder / "flops_0.txt",
        f"full_kernel_name, FLOPs, FLOPS, FLOPS utilization\n{OPS[0][0]}, 12.5, 3, 1\n")
    put(folder / "profiler_info_0.json",
        '{"context_mode": "graph", "rank_id": "0", "ms_version": "2.2.0", "graph_ids": [0]}')
    put(folder / "step_trace_point_info_0.json",
        '{"fp_start": "Default/net/Conv2D-op1", "bp_end": "Gradients/Default/net/MatMul-op3"}')


def gpu(folder):
    put(folder / "gpu_timeline_display_0.json", json.dumps([
        {"name": "Default/InitDataSetQueue-op0", "ph": "X", "tid": "Ops",
         "ts": 1600695893269618.2, "dur": 303.84, "pid": 0},
        {"name": "void Kernel<float>(float*)", "ph": "X", "tid": "17", "ts": 1600695893269999.125,
         "dur": 5.792, "pid": 0, "args": {"type": "cuLaunchKernel", "block_dim": "1024,1,1",
                                          "op_full_name": "Default/ApplyMomentum-op55"}}]))
    put(folder / "gpu_op_detail_info_0.csv",
        "op_side,op_type,op_name,op_full_name,op_occurrences,op_total_time(us),op_avg_time(us)\n"
        "Device,ApplyMomentum,ApplyMomentum-op55,Default/ApplyMomentum-op55,2,11.584,5.792\n")


def kernels(folder):
    out = folder / "ASCEND_PROFILER_OUTPUT"
    put(out / "kernel_details.csv",
        "Step Id,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),"
        "Block Dim,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types\n"
        '1,Default/MatMul-op1,MatMul,static,AI_CORE,"1700000000000000.125\t",12.5,0,8,'
        '"""32,64;64,10""",FLOAT16;FLOAT16,ND;ND,"""32,10""",FLOAT\n'
        '1,Default/AllReduce-op2,AllReduce,N/A,HCCL,"1700000000000020.5\t",7,0,N/A,N/A,N/A,N/A,N/A,'
        "N/A\n"
        '2,Default/MatMul-op1,MatMul,static,AI_CORE,"1700000000000050\t",11,0,8,'
        '"""32,64;64,10""",FLOAT16;FLOAT16,ND;ND,"""32,10""",FLOAT\n'
        "2,Default/MatMul-op1,MatMul,static,AI_CORE,never,11\n")
    put(out / "step_trace_time.csv",
        "Step,Computing,Communication(Not Overlapped),Free,Stage\n1,12.5,7,8,27.5\n2,11,0,0,11\n")
    put(out / "op_statistic.csv",
        "OP Type,Core Type,Count,Total Time(us),Avg Time(us)\nMatMul,AI_CORE,2,23.5,11.75\n")


if __name__ == "__main__":
    KINDS = {"new": new, "parsed": parsed, "gpu": gpu, "kernels": kernels}
    if sys.argv[1] == "raw":
        raw(Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    else:
        KINDS[sys.argv[1]](Path(sys.argv[2]))
