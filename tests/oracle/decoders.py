"""decoders.py -- language models in numpy, by the papers of their parts: rotary embeddings (Su et
al.), RMSNorm (Zhang and Sennrich), grouped queries (Ainslie et al.), SwiGLU (Shazeer), GPT-2
(Radford et al.). Nothing is cached: every token is computed from all before it, in doubles."""
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
