"""cases_generate.py -- what `opmeter run --generate` makes, and what its trace says of that."""
import decoders
from onnx_weights import weights

LLAMA = ("llama-tiny", "llama-tiny?quant=int4", "llama-tiny?dtype=fp16")
PROMPTS = [[11, 7, 1999, 4095, 0, 23], [5, 4, 3, 2, 1, 600]]
TOKENS, FEW = 20, 5
# Weights of products of llama-tiny: Q, K and V together, the output, three of the feed-forward part,
# four layers of them; the head.
PRODUCTS = 4 * (256 * (256 + 128) + 256 * 256 + 3 * 256 * 704) + 256 * 4096


def cases(opmeter, work):
    folder = work / "generate"
    for name in LLAMA:
        yield f"generate/{name}", lambda case, n=name: llama(case, opmeter, n, folder / n)


    yield "generate/gpt2-small", lambda case: gpt2(case, opmeter, folder / "gpt2")


def gpt2(case, opmeter, folder):
    folder.mkdir(parents=True, exist_ok=True)
    opmeter.text("zoo", "gpt2-small?cache=1", "-o", folder / "model.onnx")
    model = decoders.Gpt2(weights(folder / "model.onnx"), heads=12)
    truth = [decoders.greedy(model, p, FEW) for p in PROMPTS]
    case.check("decided", bool(min(lead for _, leads in truth for lead in leads) > 1e-4), True,
               "no token of the truth leads by so little that rounding could choose another")
    case.check("tokens", lambda: generate(opmeter, folder, folder / "model.onnx", FEW),
               [tokens for tokens, _ in truth], "numpy, without a cache")


def generate(opmeter, folder, model, count, *options):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts").write_text("".join(f"{' '.join(map(str, p))}\n" for p in PROMPTS))
    opmeter.text("run", model, "--generate", count, "--prompt-ids", folder / "prompts", "-n", 1,
                 "--save-tokens", folder / "tokens", "-o", folder / "out", "--force", *options)
    return [[int(t) for t in line.split()]
            for line in (folder / "tokens").read_text().splitlines()]


def llama(case, opmeter, name, folder):
    folder.mkdir(parents=True, exist_ok=True)
    opmeter.text("zoo", name, "-o", folder / "model.onnx")
    model = decoders.Llama(weights(folder / "model.onnx"), heads=8, kv_heads=2)
    truth = [decoders.greedy(model, p, TOKENS) for p in PROMPTS]
    case.check("decided", bool(min(lead for _, leads in truth for lead in leads) > 1e-4), True,
               "no token of the truth leads by so little that rounding could choose another")
    case.check("tokens", lambda: generate(opmeter, folder, folder / "model.onnx", TOKENS),
               [tokens for tokens, _ in truth], "numpy, without a cache")
    trace(case, opmeter, folder / "out/trace.opm")


def trace(case, opmeter, path):
    """A measured text of two rows; what was made for warm-up is not told of."""
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    case.check("requests", lambda: query(
        "SELECT count(*) n, sum(tokens_in) t_in, sum(tokens_out) t_out, count(ttft_ns) ttft FROM "
        "request_latency"),
        [{"n": 2, "t_in": 2 * len(PROMPTS[0]), "t_out": 2 * TOKENS, "ttft": 2}], "what was asked for")
    case.check("ttft and itl", lambda: query(
        "SELECT count(*) n FROM request_latency WHERE ttft_ns + itl_ns <> e2e_ns"), [{"n": 0}],
        "they add up")
    case.check("iterations", lambda: query(
        "SELECT kind, count(*) n, sum(tokens_in) t_in, sum(tokens_out) t_out, min(batch) low, "
        "max(batch) high, max(context) context FROM iteration_times GROUP BY kind ORDER BY kind"),
        [{"kind": "decode", "n": TOKENS - 1, "t_in": 2 * (TOKENS - 1),
          "t_out": 2 * (TOKENS - 1), "low": 2, "high": 2,
          "context": 2 * (len(PROMPTS[0]) + TOKENS - 1)},
         {"kind": "prefill", "n": 1, "t_in": 2 * len(PROMPTS[0]), "t_out": 2, "low": 2, "high": 2,
          "context": 2 * len(PROMPTS[0])}], "a prompt is read at once, then a token at a time")
    ops = "(SELECT kind, type, kernels, flops, bytes FROM iteration_ops WHERE type LIKE 'MatMul%')"
    case.check("products", lambda: opmeter.value(
        path, f"SELECT sum(kernels) FROM {ops} WHERE kind = 'decode'"), 21 * (TOKENS - 1),
        "five in each layer, and the head")
    operations = 2 * 2 * PRODUCTS * (TOKENS - 1)
    case.check("operations", lambda: opmeter.value(
        path, f"SELECT sum(flops) FROM {ops} WHERE kind = 'decode'"), operations,
        "two for every weight of a product and row; activations behind them may be theirs",
        within=0.003 * operations)
    case.check("roofs", lambda: query(
        "SELECT phase, tokens FROM llm_roofs WHERE abs(flops_per_token * tokens / (SELECT sum(flops) FROM "
        "iteration_ops o WHERE o.kind = phase) - 1) < 1e-9 ORDER BY phase"),
        [{"phase": "decode", "tokens": 2 * (TOKENS - 1)},
         {"phase": "prefill", "tokens": 2 * len(PROMPTS[0])}], "sums of iteration_ops")
    case.check("cache", lambda: opmeter.value(
        path, "SELECT CAST(value AS INT) FROM meta WHERE key = 'generate.cache_bytes_per_token'"),
        4 * 2 * 2 * 32 * 4, "layers, keys and values, heads, width, bytes")
    case.check("tokens in the trace", lambda: query("SELECT count(*) n FROM token"),
               [{"n": 2 * TOKENS}], "what was asked for")
