"""cases_generate.py -- what `opmeter run --generate` makes, and what its trace says of that."""
import decoders
from onnx_weights import weights

LLAMA = ("llama-tiny", "llama-tiny?quant=int4", "llama-tiny?dtype=fp16")
PROMPTS = [[11, 7, 1999, 4095, 0, 23], [5, 4, 3, 2, 1, 600]]
TOKENS = 20


def cases(opmeter, work):
    folder = work / "generate"
    for name in LLAMA:
        yield f"generate/{name}", lambda case, n=name: llama(case, opmeter, n, folder / n)


def generate(opmeter, folder, model, *options):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prompts").write_text("".join(f"{' '.join(map(str, p))}\n" for p in PROMPTS))
    opmeter.text("run", model, "--generate", TOKENS, "--prompt-ids", folder / "prompts", "-n", 1,
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
    case.check("tokens", lambda: generate(opmeter, folder, folder / "model.onnx"),
               [tokens for tokens, _ in truth], "numpy, without a cache")
    trace(case, opmeter, folder / "out/trace.opm")


def trace(case, opmeter, path):
    """A warm-up and a measured text of two rows."""
    query = lambda sql: opmeter.query(path, sql)  # noqa: E731
    case.check("requests", lambda: query(
        "SELECT count(*) n, sum(tokens_in) t_in, sum(tokens_out) t_out, count(ttft_ns) ttft FROM "
        "request_latency"),
        [{"n": 4, "t_in": 4 * len(PROMPTS[0]), "t_out": 4 * TOKENS, "ttft": 4}], "what was asked for")
    case.check("ttft and itl", lambda: query(
        "SELECT count(*) n FROM request_latency WHERE ttft_ns + itl_ns <> e2e_ns"), [{"n": 0}],
        "they add up")
    case.check("iterations", lambda: query(
        "SELECT kind, count(*) n, sum(tokens_in) t_in, sum(tokens_out) t_out, min(batch) low, "
        "max(batch) high, max(context) context FROM iteration_times GROUP BY kind ORDER BY kind"),
        [{"kind": "decode", "n": 2 * (TOKENS - 1), "t_in": 4 * (TOKENS - 1),
          "t_out": 4 * (TOKENS - 1), "low": 2, "high": 2,
          "context": 2 * (len(PROMPTS[0]) + TOKENS - 1)},
         {"kind": "prefill", "n": 2, "t_in": 4 * len(PROMPTS[0]), "t_out": 4, "low": 2, "high": 2,
          "context": 2 * len(PROMPTS[0])}], "a prompt is read at once, then a token at a time")
    case.check("tokens in the trace", lambda: query("SELECT count(*) n FROM token"),
               [{"n": 4 * TOKENS}], "what was asked for")
