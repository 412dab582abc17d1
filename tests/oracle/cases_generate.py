"""cases_generate.py -- what `opmeter run --generate` makes, and what its trace says of that."""
import sys
from pathlib import Path

import numpy

import decoders
from onnx_weights import weights
from program import Unanswered

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
import decoder_forms  # noqa: E402
import optimum_models  # noqa: E402

LLAMA = ("llama-tiny", "llama-tiny?quant=int4", "llama-tiny?dtype=fp16")
PROMPTS = [[11, 7, 1999, 4095, 0, 23], [5, 4, 3, 2, 1, 600]]
SMALL_PROMPTS = [[i % 300 for i in p] for p in PROMPTS]
TOKENS, FEW, HEARD_TOKENS, SMALL_TOKENS = 20, 5, 9, 30
# Weights of products of llama-tiny: Q, K and V together, the output, three of the feed-forward part,
# four layers of them; the head.
PRODUCTS = 4 * (256 * (256 + 128) + 256 * 256 + 3 * 256 * 704) + 256 * 4096


def cases(opmeter, work):
    folder = work / "generate"
    for name in LLAMA:
        yield f"generate/{name}", lambda case, n=name: llama(case, opmeter, n, folder / n)
    yield "generate/gpt2-small", lambda case: gpt2(case, opmeter, folder / "gpt2")
    yield "generate/whisper-tiny", lambda case: whisper(case, opmeter, folder / "whisper")
    yield "generate/t5", lambda case: t5(case, opmeter, folder / "t5")
    yield "generate/gpt merged", lambda case: merged(case, opmeter, folder / "gpt")
    for name in decoder_forms.FORMS:
        yield f"generate/form {name}", lambda case, n=name: form(case, opmeter, n, folder / "forms" / n)
    yield "generate/refused", lambda case: refused(case, opmeter, folder / "refused")


def small(case, opmeter, folder, truth, count, names, *options):
    """The same from every form of a model."""
    case.check("decided", bool(min(lead for _, leads in truth for lead in leads) > 1e-4), True,
               "no token of the truth leads by so little that rounding could choose another")
    for name in names:
        case.check(f"tokens, {name}", lambda n=name: generate(opmeter, folder, folder / n, count, *options),
                   [tokens for tokens, _ in truth], "numpy, without a cache")
        sums(case, lambda sql: opmeter.query(folder / "out/trace.opm", sql), len(PROMPTS[0]), count, name)


def merged(case, opmeter, folder):
    model = decoders.Gpt(optimum_models.write("gpt", folder), optimum_models.HEADS, optimum_models.LAYERS)
    truth = [decoders.greedy(model, p, SMALL_TOKENS) for p in SMALL_PROMPTS]
    small(case, opmeter, folder, truth, SMALL_TOKENS, ("one/model.onnx", "one", "pair", "merged",
                                                       "merged/decoder_model_merged.onnx"))


def form(case, opmeter, name, folder):
    """Two texts, one after the other: what is left of the first is of no use to the second."""
    arrays = decoder_forms.write(name, folder / "model.onnx")
    model = decoders.Gpt(arrays, optimum_models.HEADS, optimum_models.LAYERS, decoder_forms.FORMS[name].window)
    truth = [decoders.greedy(model, p, SMALL_TOKENS) for p in SMALL_PROMPTS]
    small(case, opmeter, folder, truth, SMALL_TOKENS, ("model.onnx",))


def refused(case, opmeter, folder):
    for kind, why in decoder_forms.REFUSED.items():
        decoder_forms.write(kind, folder / "model.onnx")
        case.check(kind.__name__, lambda: said(lambda: opmeter.text("run", folder / "model.onnx", "--generate", 3, "-o", folder / "out")),
                   f"opmeter run: exit status 1: opmeter: {folder / 'model.onnx'}: {why}", "one line")


def said(call):
    try:
        call()
    except Unanswered as error:
        return str(error)
    return "nothing"


def t5(case, opmeter, folder):
    """Two texts to read, one of them with padding behind it, of which the mask tells."""
    arrays = optimum_models.write("t5", folder)
    text = numpy.random.default_rng(3).integers(0, optimum_models.VOCABULARY, (2, 45))
    lengths = (45, 31)
    truth = [decoders.greedy(decoders.T5(arrays, optimum_models.HEADS, optimum_models.LAYERS, optimum_models.FARTHEST,
                                         text[i, :lengths[i]]), p, SMALL_TOKENS) for i, p in enumerate(SMALL_PROMPTS)]
    numpy.save(folder / "text.npy", text)
    numpy.save(folder / "mask.npy", (numpy.arange(45)[None] < numpy.array(lengths)[:, None]).astype(numpy.int64))
    small(case, opmeter, folder, truth, SMALL_TOKENS, ("pair", "merged", "pair/decoder_with_past_model.onnx"),
          "--input", f"input_ids:{folder / 'text.npy'}", "--input", f"attention_mask:{folder / 'mask.npy'}",
          "--encoder", folder / "pair/encoder_model.onnx")


def whisper(case, opmeter, folder):
    """Two sounds, each with a prompt: as the zoo makes it, as two decoders and as files in a folder."""
    folder.mkdir(parents=True)
    opmeter.text("zoo", "whisper-tiny", "-o", folder / "whole.onnx")
    arrays = weights(folder / "whole.onnx")
    sounds = numpy.random.default_rng(9).standard_normal((2, 80, 3000)).astype(numpy.float32)
    numpy.save(folder / "sound.npy", sounds)
    truth = [decoders.greedy(decoders.Whisper(arrays, 6, sound), p, HEARD_TOKENS)
             for sound, p in zip(sounds, PROMPTS)]
    case.check("decided", bool(min(lead for _, leads in truth for lead in leads) > 1e-4), True,
               "no token of the truth leads by so little that rounding could choose another")
    want = [tokens for tokens, _ in truth]
    sound = ("--input", f"input_features:{folder / 'sound.npy'}")
    for name in ("zoo:whisper-tiny", "zoo:whisper-tiny?part=decoder_with_past_model"):
        case.check(f"tokens of {name}", lambda n=name: generate(
            opmeter, folder, n, HEARD_TOKENS, "-w", 0, "--no-receipt", *sound), want, "numpy, without a cache")
    query = lambda sql: opmeter.query(folder / "out/trace.opm", sql)  # noqa: E731
    sums(case, query, len(PROMPTS[0]), HEARD_TOKENS)
    case.check("the encoder is part of the prefill", lambda: query(
        "SELECT count(*) n, min(s.ts >= i.ts AND s.ts + s.dur <= i.ts + i.dur) within FROM span s, iteration i "
        "WHERE s.name = 'encoder' AND i.kind = 'prefill'"), [{"n": 1, "within": 1}], "it runs once for a text")
    # Of the decoder: rows of a layer's products for a token, those of what it looks at in the encoder, the head.
    layer, heard, head = 6 * 384 * 384 + 2 * 384 * 1536, 2 * 1500 * 384, 384 * 51865
    # Keys are turned for the product, which counts one for each of their numbers.
    operations = 2 * (2 * (4 * (layer + heard) + head) + 4 * heard // 2) * (HEARD_TOKENS - 1)
    case.check("operations", lambda: opmeter.value(
        folder / "out/trace.opm", "SELECT sum(flops) FROM iteration_ops WHERE kind = 'decode'"), operations,
        "two for every number of a product", within=0.01 * operations)
    read = (4 * 4 * layer + 4 * head + 4 * 2 * 4 * heard) * (HEARD_TOKENS - 1)
    case.check("bytes", lambda: opmeter.value(
        folder / "out/trace.opm", "SELECT sum(bytes) FROM iteration_ops WHERE kind = 'decode'"), read,
        "weights once for both rows, what the encoder gave for each", within=0.02 * read)
    other = [row for _, row in sorted(zip([1, 0], want))]
    numpy.save(folder / "sound.npy", sounds[::-1])
    case.check("other sounds, other tokens", lambda: generate(
        opmeter, folder, "zoo:whisper-tiny", 2, "-w", 0, "--no-receipt", *sound) == [r[:2] for r in other], False,
        "the prompts stay where they are")


def sums(case, query, prompt, tokens, of=""):
    """Of one text of two rows."""
    of = of and f", {of}"
    case.check(f"requests{of}", lambda: query(
        "SELECT count(*) n, sum(tokens_in) t_in, sum(tokens_out) t_out, count(ttft_ns) ttft FROM "
        "request_latency"), [{"n": 2, "t_in": 2 * prompt, "t_out": 2 * tokens, "ttft": 2}], "what was asked for")
    case.check(f"ttft and itl{of}", lambda: query(
        "SELECT count(*) n FROM request_latency WHERE ttft_ns + itl_ns <> e2e_ns"), [{"n": 0}],
        "they add up")
    case.check(f"tokens in the trace{of}", lambda: query("SELECT count(*) n FROM token"),
               [{"n": 2 * tokens}], "what was asked for")


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
    prompts = SMALL_PROMPTS if folder.name in ("t5", "gpt") or folder.parent.name == "forms" else PROMPTS
    (folder / "prompts").write_text("".join(f"{' '.join(map(str, p))}\n" for p in prompts))
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
    sums(case, query, len(PROMPTS[0]), TOKENS)
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
