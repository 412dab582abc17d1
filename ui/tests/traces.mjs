// traces.mjs -- the traces that the browser tests look at, made on the spot.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

export const RUN = "run/trace.opm";
export const GPU = "gpu.pt.trace.json";
export const MINDSPORE = "mindspore";
export const HOSTILE = "hostile.json";
export const EMPTY = "empty.json";
export const DENSE = "dense.json";
export const RANKS = "ranks.opm";
export const SERVING = "serving.pt.trace.json";
export const MODULES = "modules.json";
export const STACK = "stack.json";
export const FUNCTIONS = "functions.json";
export const LEAD = "lead.json";
export const BEFORE = "before.json";
export const AFTER = "after.json";

export const LLM = "llm.json";

export const SCRIPT = "<script>window.hacked = 1</script>";
export const IMAGE = "<img src=x onerror=\"window.hacked = 2\">";

const HOST = 471;
const STEPS = 6;
const STEP_US = 2000;

// Training on a GPU as PyTorch's profiler writes it: forward, backward and optimizer on two threads,
// kernels on a stream, a collective on another, launches linked to kernels.
// Of two ranks, the second comes late to the collective, which ends for both at once.
export const LATE_US = 40;
function gpuTrace(rank = null) {
    const events = [];
    let correlation = 100;
    const span = (cat, name, tid, ts, dur, args = {}, pid = HOST) =>
        events.push({ ph: "X", cat, name, pid, tid, ts, dur, args });
    const launch = (op, kernel, tid, ts, length, stream = 7, more = {}) => {
        const id = correlation++;
        span("cuda_runtime", "cudaLaunchKernel", tid, ts, 6, { "External id": id, cbid: 211, correlation: id });
        events.push({ ph: "s", id, pid: HOST, tid, ts, cat: "ac2g", name: "ac2g" });
        const start = ts + 20;
        span("kernel", kernel, stream, start, length,
             { "External id": id, device: 0, stream, correlation: id, grid: [8, 1, 1], block: [128, 1, 1], ...more }, 0);
        events.push({ ph: "f", id, pid: 0, tid: stream, ts: start, cat: "ac2g", name: "ac2g", bp: "e" });
        return op;
    };
    for (let step = 0; step < STEPS; step++) {
        const t = 1000 + step * STEP_US;
        span("user_annotation", `ProfilerStep#${step}`, HOST, t, STEP_US - 50, { "External id": 1 });
        span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", HOST, t + 10, 280);
        for (let layer = 0; layer < 4; layer++) {
            const at = t + 320 + layer * 120;
            span("cpu_op", "aten::conv2d", HOST, at, 100, {
                "External id": 10 + layer, "Sequence number": layer,
                "Input Dims": [[8, 16, 32, 32], [16, 16, 3, 3], [16], [], [], [], []],
                "Input type": ["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
                "Concrete Inputs": ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"] });
            span("cpu_op", "aten::cudnn_convolution", HOST, at + 10, 80, { "External id": 20 + layer });
            launch("conv", "implicit_convolve_sgemm", HOST, at + 30, 70);
        }
        for (let layer = 3; layer >= 0; layer--) {
            const at = t + 860 + (3 - layer) * 160;
            span("cpu_op", "ConvolutionBackward0", 480, at, 140, {
                "External id": 40 + layer, "Sequence number": layer, "Fwd thread id": 1 });
            launch("back", "cudnn::dgrad_engine", 480, at + 20, 110);
        }
        launch("nccl", "ncclDevKernel_AllReduce_Sum_f32", 480, t + 1540 + (rank === 1 ? LATE_US : 0),
               160 + (rank === 0 ? LATE_US : 0), 20,
               { "Collective name": "allreduce", "In msg nelems": 4096, dtype: "Float", "Group size": 2 });
        span("user_annotation", "Optimizer.step#SGD.step", HOST, t + 1720, 180);
        launch("sgd", "multi_tensor_apply_kernel", HOST, t + 1760, 60);
        events.push({ ph: "i", cat: "cpu_instant_event", s: "t", name: "[memory]", pid: HOST, tid: HOST, ts: t + 330,
                      args: { "Total Reserved": 2097152, "Total Allocated": 1048576 + step * 65536, Bytes: 65536,
                              Addr: 140000, "Device Id": 0, "Device Type": 1 } });
    }
    const named = (name, pid, tid, args) => events.push({ ph: "M", name, pid, tid, args });
    named("process_name", HOST, 0, { name: "python3" });
    named("process_name", 0, 0, { name: "python3" });
    named("process_labels", 0, 0, { labels: "GPU 0" });
    named("thread_name", 0, 7, { name: "stream 7" });
    named("thread_name", 0, 20, { name: "stream 20" });
    return { schemaVersion: 1, ...(rank === null ? {} : { distributedInfo: { backend: "nccl", rank, world_size: 2 } }),
             deviceProperties: [{ id: 0, name: "NVIDIA H200", numSms: 132 }],
             baseTimeNanoseconds: 1790857026000000000, traceEvents: events, traceName: GPU };
}

// Modules as PyTorch records them: what Conv2d launches takes 70 µs, what Linear does 30 µs, and as
// much is launched outside of any.
function moduleTrace() {
    const events = [];
    const span = (cat, name, tid, ts, dur, args = {}, pid = HOST) => events.push({ ph: "X", cat, name, pid, tid, ts, dur, args });
    const launch = (id, tid, ts, length, kernel) => {
        span("cuda_runtime", "cudaLaunchKernel", tid, ts, 2, { correlation: id });
        events.push({ ph: "s", id, pid: HOST, tid, ts, cat: "ac2g", name: "ac2g" });
        span("kernel", kernel, 7, ts + 5, length, { device: 0, stream: 7, correlation: id }, 0);
        events.push({ ph: "f", id, pid: 0, tid: 7, ts: ts + 5, cat: "ac2g", name: "ac2g", bp: "e" });
    };
    span("python_function", "nn.Module: Net_0", HOST, 0, 400);
    span("python_function", "nn.Module: Conv2d_0", HOST, 10, 100);
    span("cpu_op", "aten::conv2d", HOST, 20, 80);
    launch(1, HOST, 30, 70, "conv");
    span("python_function", "nn.Module: Linear_0", HOST, 150, 100);
    span("cpu_op", "aten::linear", HOST, 160, 80);
    launch(2, HOST, 170, 30, "gemm");
    span("cpu_op", "AddmmBackward0", 480, 500, 100);
    launch(3, 480, 510, 100, "dgrad");
    return { schemaVersion: 1, deviceProperties: [{ id: 0, name: "NVIDIA H200" }], traceEvents: events };
}

// A language model that is served: no steps, a forward pass in pieces that are replayed as graphs, whose kernels no
// arrow leads to, and attention between them.
function servingTrace() {
    const events = [];
    const LAYERS = 6;
    let id = 900;
    let free = 400; // when the device is done with what was launched before
    const span = (cat, name, tid, ts, dur, args = {}, pid = HOST) => events.push({ ph: "X", cat, name, pid, tid, ts, dur, args });
    const kernel = (name, dur, more = {}) => {
        span("kernel", name, 0, free, dur, { device: 0, stream: 0, correlation: id, ...more }, 0);
        free += dur + 1;
    };
    span("user_annotation", "execute_context_1(128)_generation_32(32)", HOST, 0, 340);
    span("python_function", "vllm/v1/worker/gpu_model_runner.py(3001): execute_model", HOST, 1, 338);
    span("python_function", "nn.Module: GptForCausalLM_0", HOST, 10, 300);
    for (let layer = 0; layer < LAYERS; layer++) {
        const at = 20 + 48 * layer;
        id += 1;
        span("cuda_runtime", "cudaGraphLaunch", HOST, at, 12, { correlation: id });
        for (const [name, dur] of [["_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1_swiglu", 900], ["vllm::rotary_embedding_kernel<c10::BFloat16, true>", 21],
                                   ["triton_poi_fused_add_rms_norm_0", 3]]) kernel(name, dur);
        id += 1;
        span("cpu_op", "vllm::unified_attention_with_output", HOST, at + 16, 24, { "External id": id, "Input Dims": [[160, 64, 64], [160, 8, 64]], "Input type": ["c10::BFloat16", "c10::BFloat16"] });
        span("cuda_runtime", "cudaLaunchKernel", HOST, at + 24, 6, { correlation: id, "External id": id });
        events.push({ ph: "s", id, pid: HOST, tid: HOST, ts: at + 24, cat: "ac2g", name: "ac2g" },
                    { ph: "f", id, pid: 0, tid: 0, ts: free, cat: "ac2g", name: "ac2g", bp: "e" });
        kernel("kernel_unified_attention_2d", 130, { "External id": id, grid: [160, 8, 1], block: [128, 1, 1] });
    }
    return { schemaVersion: 1, deviceProperties: [{ id: 0, name: "NVIDIA H200", numSms: 132 }], traceEvents: events };
}

// Four steps of 1 ms, each with 0.9 ms of kernels, a second after something else ran on the device.
function leadTrace() {
    const events = [];
    const span = (cat, name, tid, ts, dur, args = {}, pid = HOST) => events.push({ ph: "X", cat, name, pid, tid, ts, dur, args });
    const launched = (id, ts, dur) => {
        span("cuda_runtime", "cudaLaunchKernel", HOST, ts, 5, { correlation: id });
        span("kernel", "work", 7, ts + 10, dur, { device: 0, stream: 7, correlation: id }, 0);
    };
    launched(1, 0, 50);
    for (let i = 0; i < 4; i++) {
        span("user_annotation", `ProfilerStep#${i}`, HOST, 1e6 + 1000 * i, 1000);
        launched(10 + i, 1e6 + 1000 * i + 20, 900);
    }
    return { schemaVersion: 1, deviceProperties: [{ id: 0, name: "NVIDIA H200" }], traceEvents: events };
}

// Calls one inside the other, [name, what it launches in µs, calls inside], as PyTorch's profiler has them.
function calledTrace(calls) {
    const events = [];
    let [at, id] = [0, 0];
    const span = (cat, name, ts, dur, args = {}, pid = HOST, tid = HOST) => events.push({ ph: "X", cat, name, pid, tid, ts, dur, args });
    const call = ([name, us, inside = []]) => {
        const place = events.length;
        const start = at++;
        if (us) {
            id += 1;
            span("cuda_runtime", "cudaLaunchKernel", at, 2, { correlation: id });
            events.push({ ph: "s", id, pid: HOST, tid: HOST, ts: at, cat: "ac2g", name: "ac2g" });
            span("kernel", "work", at + 5 + 1000 * id, us, { device: 0, stream: 7, correlation: id }, 0, 7);
            events.push({ ph: "f", id, pid: 0, tid: 7, ts: at + 5 + 1000 * id, cat: "ac2g", name: "ac2g", bp: "e" });
            at += 4;
        }
        inside.forEach(call);
        at += 1;
        events.splice(place, 0, { ph: "X", cat: "python_function", name, pid: HOST, tid: HOST, ts: start, dur: at - start, args: {} });
        at += 1;
    };
    calls.forEach(call);
    return { schemaVersion: 1, deviceProperties: [{ id: 0, name: "NVIDIA H200" }], traceEvents: events };
}

export const STACK_LAYERS = 6;
function stackTrace() {
    const module = (name, us, inside) => [`nn.Module: ${name}`, us, inside];
    return calledTrace([module("Net_0", 0, [
        ...Array.from({ length: STACK_LAYERS }, (_, i) => module(`Layer_${i}`, 0, [module(`Norm_${i}`, 10), module(`Attention_${i}`, 40)])),
        module("Head_0", 50)])]);
}

// A model before and after a change, in the form that opmeter exports: conv1 takes 100 µs longer, relu1 20 µs
// less, fc scatters and is 1 µs off, old is gone and new is there. Steps begin at other times and are further apart.
export const CHANGED = {
    [BEFORE]: { first: 1000, every: 1000, dur: 900, ops: [["conv1", "Conv", 400, 4], ["relu1", "Relu", 50, 1], ["fc", "Gemm", 100, 40], ["old", "Add", 20, 1]] },
    [AFTER]: { first: 5000, every: 1300, dur: 1050, ops: [["conv1", "Conv", 500, 4], ["relu1", "Relu", 30, 1], ["fc", "Gemm", 101, 40], ["new", "Mul", 70, 1]] },
};
export const CHANGED_STEPS = 12;
// Of the i-th step; the mean over all is dur.
export function changedDur([, , dur, spread], i) {
    return dur + (i % 2 ? spread : -spread);
}
function changedTrace({ first, every, dur, ops }) {
    const ids = ["conv1", "relu1", "fc", "old", "new"];
    const events = [{ ph: "X", pid: 1, tid: 1, ts: 0, dur: 10, name: "load", cat: "app", args: { layer: "app" } }];
    for (let i = 0; i < CHANGED_STEPS; i++) {
        const at = first + every * i;
        events.push({ ph: "X", pid: 1, tid: 1, ts: at, dur: dur + i, name: "net", cat: "step",
                      args: { layer: "app", step: { id: i, num: i, model: "net", warmup: 0 } } });
        ops.forEach((op, k) => events.push({ ph: "X", pid: 1, tid: 2, ts: at + 20 + (k && 400 + 120 * k), dur: changedDur(op, i),
            name: op[0], cat: "op", args: { layer: "hardware", step: { id: i }, op: { id: ids.indexOf(op[0]), name: op[0], type: op[1] } } }));
    }
    return { displayTimeUnit: "ns", otherData: { "opmeter.export": "1" }, traceEvents: events };
}

// Names that would be markup, wherever a name can stand.
function hostileTrace() {
    const events = [{ ph: "M", name: "process_name", pid: 1, tid: 0, args: { name: SCRIPT } },
                    { ph: "M", name: "thread_name", pid: 1, tid: 1, args: { name: IMAGE } }];
    for (let i = 0; i < 20; i++) {
        events.push({ ph: "X", pid: 1, tid: 1, ts: i * 100, dur: 80, cat: IMAGE, name: i % 2 ? SCRIPT : IMAGE,
                      args: { [IMAGE]: SCRIPT, "</script>": "<!--" } });
        events.push({ ph: "C", pid: 1, ts: i * 100, name: `${SCRIPT} counter`, args: { [IMAGE]: i % 5 } });
    }
    return { traceEvents: events };
}

// Narrow spans in great number: half of the time busy with many names, and 0.8 of it mostly with one.
export const DENSE_HITS = 5000;
export const DEEP = 14;
function denseTrace() {
    const events = [];
    const span = (name, tid, ts, dur) => events.push({ ph: "X", cat: "op", pid: 1, tid, ts, dur, name });
    for (let i = 0; i < 6000; i++) {
        span(`part ${i % 10}`, 1, 10 * i, 5);
        span(i % 6 ? "MatMul" : "Softmax", 2, 10 * i, 8);
    }
    for (let depth = 0; depth < DEEP; depth++) span(`frame ${depth}`, 3, depth, 60000 - 2 * depth);
    return { traceEvents: events };
}

// A server of one request at a time: what each waits in the queue, how long its prompt is read, and how
// long it is set aside before its last token, in µs. Ten requests are alike.
export const LLM_PLAN = [
    ...Array.from({ length: 10 }, (_, i) => ({ name: `r${i}`, queue: 10, prefill: 100, prompt: 32, aside: 0 })),
    { name: "waits", queue: 3000, prefill: 100, prompt: 32, aside: 0 },
    { name: "reads", queue: 10, prefill: 2500, prompt: 4096, aside: 0 },
    { name: "yields", queue: 10, prefill: 100, prompt: 32, aside: 4000 },
];
export const LLM_HOST = { before: 2, after: 3 }; // around the iteration that reads the prompt
export const LLM_TOKENS = 5;
export const LLM_GAP = 55; // between two tokens, of which LLM_DECODE in the iteration
const LLM_DECODE = 50;

function llmTrace() {
    const events = [];
    const tell = (name, ts, dur, args) => events.push({ ph: "X", cat: "llm", name, pid: HOST, tid: HOST, ts, dur, args });
    let num = 0;
    const iterate = (request, ts, dur, phase, tokens, context) => {
        tell("iteration", ts, dur, { num: num++ });
        tell("member", ts + 1, 0, { request, phase, tokens_in: tokens, tokens_out: 1, context });
    };
    let now = 1000;
    for (const { name, queue, prefill, prompt, aside } of LLM_PLAN) {
        tell("request", now, 0, { request: name, tokens_in: prompt, model: "planted" });
        tell("scheduled", now + queue, 0, { request: name });
        iterate(name, now + queue + LLM_HOST.before, prefill, "prefill", prompt, prompt);
        let token = now + queue + LLM_HOST.before + prefill + LLM_HOST.after;
        tell("token", token, 0, { request: name });
        for (let i = 1; i < LLM_TOKENS; i++) {
            const waits = i === LLM_TOKENS - 1 ? aside : 0;
            if (waits) {
                tell("preempted", token + 1, 0, { request: name });
                tell("scheduled", token + 1 + waits, 0, { request: name });
            }
            iterate(name, token + waits + 3, LLM_DECODE, "decode", 1, prompt + i);
            token += LLM_GAP + waits;
            tell("token", token, 0, { request: name });
        }
        tell("finished", token, 0, { request: name, reason: "length" });
        now = token + 400;
    }
    return { traceEvents: events };
}

export function makeTraces(opmeter, folder) {
    mkdirSync(folder, { recursive: true });
    const quiet = { stdio: ["ignore", "ignore", "pipe"] };
    execFileSync(opmeter, ["run", "zoo:bert-mini?seq=16", "-n", "12", "-w", "3", "-o", join(folder, "run")], quiet);
    execFileSync("python3", [join(root, "tests/tools/make_mindspore.py"), "parsed", join(folder, MINDSPORE)], quiet);
    writeFileSync(join(folder, GPU), JSON.stringify(gpuTrace()));
    writeFileSync(join(folder, SERVING), JSON.stringify(servingTrace()));
    writeFileSync(join(folder, HOSTILE), JSON.stringify(hostileTrace()));
    writeFileSync(join(folder, DENSE), JSON.stringify(denseTrace()));
    writeFileSync(join(folder, MODULES), JSON.stringify(moduleTrace()));
    writeFileSync(join(folder, LEAD), JSON.stringify(leadTrace()));
    writeFileSync(join(folder, STACK), JSON.stringify(stackTrace()));
    writeFileSync(join(folder, FUNCTIONS), JSON.stringify(calledTrace([
        ["work/train.py(10): step", 40, [["<built-in method run>", 0, [["work/model/net.py(20): forward", 60]]]]]])));
    for (const [file, of] of Object.entries(CHANGED)) writeFileSync(join(folder, file), JSON.stringify(changedTrace(of)));
    const ranks = [0, 1].map((rank) => {
        const file = join(folder, "..", `rank${rank}.pt.trace.json`);
        writeFileSync(file, JSON.stringify(gpuTrace(rank)));
        return file;
    });
    execFileSync(opmeter, ["import", ...ranks, "-o", join(folder, RANKS)], quiet);
    writeFileSync(join(folder, LLM), JSON.stringify(llmTrace()));
    writeFileSync(join(folder, EMPTY), JSON.stringify({ traceEvents: [] }));
    return [RUN, GPU, SERVING, MINDSPORE, RANKS, LLM]; // one of each kind
}
