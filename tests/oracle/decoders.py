"""decoders.py -- language models in numpy, by the papers of their parts: rotary embeddings (Su et
al.), RMSNorm (Zhang and Sennrich), grouped queries (Ainslie et al.), SwiGLU (Shazeer), GPT-2
(Radford et al.), Whisper (Radford et al.). Nothing is cached: every token is computed from all before
it, in doubles."""
import math

import numpy


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def causal(q, k, v):
    """[tokens, heads, width] of each; k and v may have fewer heads."""
    group = q.shape[1] // k.shape[1]
    k, v = (numpy.repeat(x, group, axis=1) for x in (k, v))
    scores = numpy.einsum("ihd,jhd->hij", q, k) / numpy.sqrt(q.shape[2])
    n = len(q)
    scores = numpy.where(numpy.tri(n, dtype=bool), scores, -numpy.inf)
    return numpy.einsum("hij,jhd->ihd", softmax(scores), v).reshape(n, -1)


class Weights:
    """By name; those of 4 bits (MatMulNBits, blocks of 32 about 8) become numbers."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __getitem__(self, name):
        return self.arrays[name].astype(numpy.float64)

    def product(self, x, name):
        if f"{name}.weight" in self.arrays:
            return x @ self[f"{name}.weight"]
        packed, scales = self.arrays[f"{name}.weight_Q4"], self[f"{name}.weight_scales"]
        numbers = numpy.stack([packed & 15, packed >> 4], -1).astype(numpy.float64) - 8
        columns, blocks = scales.shape
        return x @ (numbers.reshape(columns, blocks, -1) * scales[..., None]).reshape(columns, -1).T


class Llama:
    def __init__(self, arrays, heads, kv_heads, base=10000.0):
        self.w, self.heads, self.kv, self.base = Weights(arrays), heads, kv_heads, base
        self.layers = sum(name.endswith("input_layernorm.weight") for name in arrays)

    def norm(self, x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.w[name + ".weight"]

    def turn(self, x):
        half = x.shape[2] // 2
        angle = numpy.arange(len(x))[:, None] * self.base ** -(numpy.arange(half) / half)
        cos, sin = numpy.cos(angle)[:, None], numpy.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return numpy.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def logits(self, ids):
        """Of the last token."""
        w = self.w
        x = w["embed_tokens.weight"][ids]
        width = x.shape[1] // self.heads
        for i in range(self.layers):
            at = f"layers.{i}"
            qkv = w.product(self.norm(x, at + ".input_layernorm"), at + ".attn.qkv_proj")
            q, k, v = numpy.split(qkv.reshape(len(ids), -1, width),
                                  [self.heads, self.heads + self.kv], axis=1)
            x = x + w.product(causal(self.turn(q), self.turn(k), v), at + ".attn.o_proj")
            n = self.norm(x, at + ".post_attention_layernorm")
            gate = w.product(n, at + ".mlp.gate_proj")
            up = w.product(n, at + ".mlp.up_proj")
            x = x + w.product(gate / (1 + numpy.exp(-gate)) * up, at + ".mlp.down_proj")
        return w.product(self.norm(x[-1], "norm"), "lm_head")


def greedy(model, prompt, count):
    """The tokens, and by how much each led: where it hardly does, rounding may choose another."""
    ids, lead = list(prompt), []
    for _ in range(count):
        logits = model.logits(numpy.array(ids))
        first, second = numpy.sort(logits)[[-1, -2]]
        lead.append(first - second)
        ids.append(int(logits.argmax()))
    return ids[len(prompt):], lead


class Gpt2:
    def __init__(self, arrays, heads):
        self.w, self.heads = Weights(arrays), heads
        self.layers = sum(name.endswith(".ln1.weight") for name in arrays)

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def linear(self, x, name):
        return self.w.product(x, name) + self.w[name + ".bias"]

    def logits(self, ids):
        """Of the last token."""
        x = self.w["wte"][ids] + self.w["wpe"][:len(ids)]
        width = x.shape[1] // self.heads
        for i in range(self.layers):
            qkv = self.linear(self.norm(x, f"h{i}.ln1"), f"h{i}.qkv").reshape(len(ids), 3, -1, width)
            x = x + self.linear(causal(*numpy.moveaxis(qkv, 1, 0)), f"h{i}.attn_out")
            y = self.linear(self.norm(x, f"h{i}.ln2"), f"h{i}.mlp_up")
            y = 0.5 * y * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (y + 0.044715 * y ** 3)))
            x = x + self.linear(y, f"h{i}.mlp_down")
        return self.w["wte"] @ self.norm(x[-1], "ln_f")


erf = numpy.vectorize(math.erf, otypes=[float])


class Whisper:
    """Of one sound: [mel bands, frames]."""

    def __init__(self, arrays, heads, sound):
        self.w, self.heads = Weights(arrays), heads
        self.layers = {side: sum(name.startswith(side) and name.endswith(".fc1.weight") for name in arrays)
                       for side in ("encoder", "decoder")}
        self.states = self.encode(sound)

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def linear(self, x, name, bias=True):
        x = self.w.product(x, name)
        return x + self.w[name + ".bias"] if bias else x

    def gelu(self, x):
        return x * (1 + erf(x / math.sqrt(2))) / 2

    def convolve(self, x, name, stride):
        """[channels, places], three places at once, one of padding at each end."""
        weight = self.w[name + ".weight"]
        x = numpy.pad(x, ((0, 0), (1, 1)))
        places = numpy.stack([x[:, i:i + x.shape[1] - 2:stride] for i in range(3)])
        return self.gelu(numpy.einsum("oik,kip->op", weight, places) + self.w[name + ".bias"][:, None])

    def attend(self, x, to, name, look_back=False):
        """Keys have no bias, as the paper's code has it."""
        parts = [self.linear(of, f"{name}.{what}_proj", what != "k").reshape(len(of), self.heads, -1)
                 for of, what in ((x, "q"), (to, "k"), (to, "v"))]
        scores = numpy.einsum("ihd,jhd->hij", *parts[:2]) / math.sqrt(parts[0].shape[2])
        if look_back:
            scores = numpy.where(numpy.tri(len(x), dtype=bool), scores, -numpy.inf)
        mixed = numpy.einsum("hij,jhd->ihd", softmax(scores), parts[2]).reshape(len(x), -1)
        return self.linear(mixed, name + ".out_proj")

    def feed_forward(self, x, at):
        y = self.norm(x, at + ".final_layer_norm")
        return x + self.linear(self.gelu(self.linear(y, at + ".fc1")), at + ".fc2")

    def encode(self, sound):
        x = self.convolve(self.convolve(sound, "encoder.conv1", 1), "encoder.conv2", 2).T
        x = x + self.w["encoder.embed_positions.weight"]
        for i in range(self.layers["encoder"]):
            at = f"encoder.layers.{i}"
            y = self.norm(x, at + ".self_attn_layer_norm")
            x = self.feed_forward(x + self.attend(y, y, at + ".self_attn"), at)
        return self.norm(x, "encoder.layer_norm")

    def logits(self, ids):
        """Of the last token."""
        words = self.w["decoder.embed_tokens.weight"]
        x = words[ids] + self.w["decoder.embed_positions.weight"][:len(ids)]
        for i in range(self.layers["decoder"]):
            at = f"decoder.layers.{i}"
            y = self.norm(x, at + ".self_attn_layer_norm")
            x = x + self.attend(y, y, at + ".self_attn", look_back=True)
            y = self.norm(x, at + ".encoder_attn_layer_norm")
            x = self.feed_forward(x + self.attend(y, self.states, at + ".encoder_attn"), at)
        return words @ self.norm(x[-1], "decoder.layer_norm")


class Small:
    """Of tests/tools/optimum_models.py: RMSNorm before each part, no biases."""

    def __init__(self, arrays, heads, layers):
        self.w, self.heads, self.layers = Weights(arrays), heads, layers

    def norm(self, x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * self.w[name]

    def attend(self, x, to, name, bias, scale=1.0):
        q, k, v = ((of @ self.w[f"{name}.{what}"]).reshape(len(of), self.heads, -1)
                   for of, what in ((x, "q"), (to, "k"), (to, "v")))
        weights = softmax(numpy.einsum("ihd,jhd->hij", q, k) * scale + bias)
        return numpy.einsum("hij,jhd->ihd", weights, v).reshape(len(x), -1) @ self.w[f"{name}.o"]

    def feed_forward(self, x, at):
        return x + numpy.maximum(self.norm(x, at + ".ffn_norm") @ self.w[at + ".up"], 0) @ self.w[at + ".down"]

    def look_back(self, n):
        return numpy.where(numpy.tri(n, dtype=bool), 0, -numpy.inf)


class Gpt(Small):
    """window: so many tokens are seen, its own and those before it; 0: all of them. Where there are taps, a convolution over the
    last tokens comes before each layer."""

    def __init__(self, arrays, heads, layers, window=0):
        super().__init__(arrays, heads, layers)
        self.window = window

    def look_back(self, n):
        return super().look_back(n) + (numpy.where(numpy.tri(n, k=-self.window, dtype=bool), -numpy.inf, 0) if self.window else 0)

    def convolve(self, x, name):
        if name not in self.w.arrays:
            return x
        taps = self.w[name][:, 0].T
        before = numpy.concatenate([numpy.zeros((len(taps) - 1, x.shape[1])), x])
        return x + sum(before[i:i + len(x)] * tap for i, tap in enumerate(taps))

    def logits(self, ids):
        """Of the last token."""
        x = self.w["shared"][ids] + self.w["positions"][:len(ids)]
        for i in range(self.layers):
            x = self.convolve(x, f"decoder.{i}.taps")
            y = self.norm(x, f"decoder.{i}.self_norm")
            width = self.w[f"decoder.{i}.self.q"].shape[1] // self.heads
            x = x + self.attend(y, y, f"decoder.{i}.self", self.look_back(len(ids)), width ** -0.5)
            x = self.feed_forward(x, f"decoder.{i}")
        return self.norm(x[-1], "decoder.norm") @ self.w["head"]


class T5(Small):
    """Of one text to read, whose padding is left out (Raffel et al.; relative positions in buckets)."""

    def __init__(self, arrays, heads, layers, farthest, text):
        super().__init__(arrays, heads, layers)
        self.farthest = farthest
        x = self.w["shared"][text]
        for i in range(layers):
            y = self.norm(x, f"encoder.{i}.self_norm")
            x = x + self.attend(y, y, f"encoder.{i}.self", self.relative(len(text), "encoder"))
            x = self.feed_forward(x, f"encoder.{i}")
        self.states = self.norm(x, "encoder.norm")

    def relative(self, n, side):
        table = self.w[f"{side}.relative"]
        far = numpy.arange(n)[None, :] - numpy.arange(n)[:, None]
        half = len(table) // 2 if side == "encoder" else len(table)
        first = numpy.where(far > 0, half, 0) if side == "encoder" else 0
        far = abs(far) if side == "encoder" else -numpy.minimum(far, 0)
        exact = half // 2
        large = exact + (numpy.log(numpy.maximum(far, 1) / exact) / math.log(self.farthest / exact) * (half - exact)).astype(int)
        bucket = first + numpy.where(far < exact, far, numpy.minimum(large, half - 1))
        return numpy.moveaxis(table[bucket], 2, 0)

    def logits(self, ids):
        """Of the last token."""
        x, n = self.w["shared"][ids], len(ids)
        for i in range(self.layers):
            at = f"decoder.{i}"
            y = self.norm(x, at + ".self_norm")
            x = x + self.attend(y, y, at + ".self", self.relative(n, "decoder") + self.look_back(n))
            y = self.norm(x, at + ".cross_norm")
            x = self.feed_forward(x + self.attend(y, self.states, at + ".cross", 0), at)
        return self.norm(x[-1], "decoder.norm") @ self.w["head"]
