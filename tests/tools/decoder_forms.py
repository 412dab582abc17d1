"""decoder_forms.py -- one small language model in the forms in which decoders are exported: what is cached has other names, dimensions and
types, attention is one operator or many, lengths are inputs or made of the mask.

write(form, path): the weights by name, as tests/oracle/decoders.py wants them; FORMS has the forms, REFUSED those that
cannot be run and what is said of them."""
import numpy

from optimum_models import DIM, HEADS, LAYERS, NEVER, VOCABULARY, WIDTH, Graph, random_weights

HEADS_WIDTH = HEADS * WIDTH
WINDOW, TAPS, BLOCK = 4, 4, 32


class Form:
    """Keys and values as four dimensions each, a mask, and attention of plain operators: the one that others change."""

    names = ("past_key_values.{}.key", "past_key_values.{}.value")
    dims = ("batch_size", HEADS, "past_sequence_length", WIDTH)
    dtype, logits, opset = "float32", "float32", 17
    mask, positions, window = "int64", "int64", 0

    def __init__(self):
        self.g, self.w = Graph(), random_weights("gpt")
        self.change_weights()

    def change_weights(self):
        pass

    # -- parts --

    def weight(self, name):
        return self.g.weight(name, self.w[name].astype(self.dtype))

    def const(self, value):
        return self.g.of(value, self.dtype)

    def norm(self, x, name):
        g = self.g
        mean = g.op("ReduceMean", g.op("Mul", x, x), axes=[-1]) if self.opset < 18 else \
            g.op("ReduceMean", g.op("Mul", x, x), g.ints(-1))
        x = g.op("Div", x, g.op("Sqrt", g.op("Add", mean, self.const(1e-6))))
        return g.op("Mul", x, self.weight(name))

    def heads(self, x):
        g = self.g
        return g.op("Transpose", g.op("Reshape", x, g.ints(0, -1, HEADS, WIDTH)), perm=[0, 2, 1, 3])

    def input_past(self, layer):
        return [self.g.input(n.format(layer), self.dtype, *self.dims) for n in self.names]

    def present(self, layer):
        return [n.format(layer).replace("past_key_values", "present").replace("past", "present") for n in self.names]

    def output_present(self, layer):
        dims = ["total_sequence_length" if d == "past_sequence_length" else d for d in self.dims]
        for name in self.present(layer):
            self.g.output(name, *dims, dtype=self.dtype)

    def past_length(self):
        g = self.g
        past = self.pasts[0][0]
        return g.size(past, self.dims.index("past_sequence_length"))

    def lengths(self):
        """How many tokens were before."""
        g = self.g
        self.start = self.past_length()
        self.stop = g.op("Add", self.start, g.size("input_ids", 1))

    def hidden(self):
        """[1 or batch, 1, new tokens, all]: what a token may not see."""
        g = self.g
        rows, columns = g.range(self.start, self.stop), g.range(g.of(0, "int64"), self.stop)
        later = g.op("Greater", g.op("Unsqueeze", columns, g.ints(0)), g.op("Unsqueeze", rows, g.ints(1)))
        bias = g.op("Where", later, self.const(self.never), self.const(0))
        if self.mask:
            keep = g.op("Cast", g.op("Unsqueeze", "attention_mask", g.ints(1, 2)), to=self.code)
            bias = g.op("Add", bias, g.op("Mul", g.op("Sub", self.const(1), keep), self.const(self.never)))
        return bias

    def store(self, layer, k, v):
        """Keys and values of all tokens, [batch, heads, tokens, width]."""
        g, (past_k, past_v), (to_k, to_v) = self.g, self.pasts[layer], self.present(layer)
        return g.op("Concat", past_k, k, out=to_k, axis=2), g.op("Concat", past_v, v, out=to_v, axis=2)

    def attend(self, layer, q, k, v):
        g = self.g
        k, v = self.store(layer, self.heads(k), self.heads(v))
        scores = g.op("Mul", g.op("MatMul", self.heads(q), g.op("Transpose", k, perm=[0, 1, 3, 2])), self.const(WIDTH ** -0.5))
        weights = g.op("Softmax", g.op("Add", scores, self.bias), axis=-1)
        mixed = g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        return g.op("Reshape", mixed, g.ints(0, -1, HEADS_WIDTH))

    def attention(self, layer, y):
        g, at = self.g, f"decoder.{layer}.self"
        return self.attend(layer, *(g.op("MatMul", y, self.weight(f"{at}.{what}")) for what in "qkv"))

    def head(self, x):
        return self.g.op("MatMul", x, self.weight("head"))

    def mix(self, layer, x):
        """Before a layer."""
        return x

    # -- whole --

    never = NEVER
    code = 1

    def make(self):
        g = self.g
        g.input("input_ids", "int64", "batch_size", "sequence_length")
        if self.mask:
            g.input("attention_mask", self.mask, "batch_size", "total_sequence_length")
        if self.positions:
            g.input("position_ids", self.positions, "batch_size", "sequence_length")
        self.pasts = [self.input_past(i) for i in range(LAYERS)]
        self.lengths()
        self.bias = self.hidden()
        x = g.op("Gather", self.weight("shared"), "input_ids")
        places = "position_ids" if self.positions else g.range(self.start, self.stop)
        x = g.op("Add", x, g.op("Gather", self.weight("positions"), places))
        for i in range(LAYERS):
            at = f"decoder.{i}"
            x = self.mix(i, x)
            y = self.attention(i, self.norm(x, f"{at}.self_norm"))
            x = g.op("Add", x, g.op("MatMul", y, self.weight(f"{at}.self.o")))
            y = g.op("Relu", g.op("MatMul", self.norm(x, f"{at}.ffn_norm"), self.weight(f"{at}.up")))
            x = g.op("Add", x, g.op("MatMul", y, self.weight(f"{at}.down")))
        x = self.head(self.norm(x, "decoder.norm"))
        g.op("Cast" if self.dtype != self.logits else "Identity", x, out="logits",
             **({"to": 1} if self.dtype != self.logits else {}))
        g.output("logits", "batch_size", "sequence_length", VOCABULARY)
        for i in range(LAYERS):
            self.output_present(i)


class Bare(Form):
    """Neither a mask nor positions."""
    mask = positions = None


class Half(Form):
    """Everything of 16 bits, logits of 32."""
    dtype, code, never = "float16", 10, -6e4

    def change_weights(self):
        self.w = {n: a.astype(numpy.float16).astype(numpy.float32) for n, a in self.w.items()}


class Tied(Form):
    """The table of tokens is the last product's, too."""

    def change_weights(self):
        self.w["head"] = numpy.ascontiguousarray(self.w["shared"].T) / 4

    def head(self, x):
        g = self.g
        return g.op("Mul", g.op("MatMul", x, g.op("Transpose", "shared", perm=[1, 0])), g.floats(0.25))


class Packed(Form):
    """Keys and values in one, as of GPT-2 in older exports, with a mask of floats."""
    names = ("past_{}",)
    dims = (2, "batch_size", HEADS, "past_sequence_length", WIDTH)
    mask = "float32"

    def store(self, layer, k, v):
        g, past, all_of = self.g, self.pasts[layer][0], []
        for i, new in enumerate((k, v)):
            all_of.append(g.op("Concat", g.op("Gather", past, g.of(i, "int64"), axis=0), new, axis=2))
        g.op("Concat", *(g.op("Unsqueeze", x, g.ints(0)) for x in all_of), out=self.present(layer)[0], axis=0)
        return all_of


class TokensFirst(Form):
    dims = ("batch_size", "past_sequence_length", HEADS, WIDTH)

    def store(self, layer, k, v):
        g, back = self.g, []
        for new, past, to in zip((k, v), self.pasts[layer], self.present(layer)):
            new = g.op("Transpose", new, perm=[0, 2, 1, 3])
            back.append(g.op("Transpose", g.op("Concat", past, new, out=to, axis=1), perm=[0, 2, 1, 3]))
        return back


class Rows(Form):
    """A row of keys and values for each token, as GPT-BigCode has it."""
    names = ("past_key_values.{}.key_value",)
    dims = ("batch_size", "past_sequence_length", 2 * HEADS_WIDTH)

    def attend(self, layer, q, k, v):
        self.new = self.g.op("Concat", k, v, axis=2)
        return super().attend(layer, q, k, v)

    def store(self, layer, k, v):
        g = self.g
        both = g.op("Concat", self.pasts[layer][0], self.new, out=self.present(layer)[0], axis=1)
        return [self.heads(g.op("Slice", both, g.ints(i * HEADS_WIDTH), g.ints((i + 1) * HEADS_WIDTH), g.ints(2)))
                for i in range(2)]


class Apart(Form):
    """Names of ONNX Runtime's own exporters."""
    names = ("past_key_self_{}", "past_value_self_{}")


class MultiHead(Form):
    """MultiHeadAttention appends to the cache itself."""

    def attend(self, layer, q, k, v):
        outs = [f"/attention_{layer}", *self.present(layer)]
        self.g.nodes.append(("com.microsoft:MultiHeadAttention", [q, k, v, "", "", self.bias, *self.pasts[layer]], outs,
                             {"num_heads": HEADS}))
        return outs[0]


class Fused(Form):
    """Attention of ONNX Runtime's optimiser of GPT-2: weights of queries, keys and values are one, so is the cache."""
    names, dims = ("past_{}",), (2, "batch_size", HEADS, "past_sequence_length", WIDTH)

    def hidden(self):
        return ""

    def attention(self, layer, y):
        g, at = self.g, f"decoder.{layer}.self"
        weight = g.weight(f"{at}.qkv", numpy.concatenate([self.w[f"{at}.{what}"] for what in "qkv"], axis=1))
        bias = g.weight(f"{at}.bias", numpy.zeros(3 * HEADS_WIDTH, "float32"))
        mask = g.op("Cast", "attention_mask", to=6)
        outs = [f"/attention_{layer}", self.present(layer)[0]]
        g.nodes.append(("com.microsoft:Attention", [y, weight, bias, mask, self.pasts[layer][0]], outs,
                        {"num_heads": HEADS, "unidirectional": 1}))
        return outs[0]


class Group(Form):
    """GroupQueryAttention with lengths from the mask, as the builder of ONNX Runtime GenAI writes it."""

    def lengths(self):
        g = self.g
        self.all_of = g.op("Cast", g.size("attention_mask", 1), to=6)
        each = g.op("ReduceSum", "attention_mask", g.ints(1), keepdims=0)
        self.last = g.op("Cast", g.op("Sub", each, g.of(1, "int64")), to=6)

    def hidden(self):
        return ""

    def attend(self, layer, q, k, v):
        outs = [f"/attention_{layer}", *self.present(layer)]
        attributes = {"num_heads": HEADS, "kv_num_heads": HEADS}
        if self.window:
            attributes["local_window_size"] = self.window
        self.g.nodes.append(("com.microsoft:GroupQueryAttention", [q, k, v, *self.pasts[layer], self.last, self.all_of],
                             outs, attributes))
        return outs[0]


class Window(Group):
    """Of the tokens before only the last few are seen."""
    window = WINDOW


class Room(Group):
    """A cache that has room for so many tokens from the beginning."""
    dims = ("batch_size", HEADS, 64, WIDTH)


class Lengths(Group):
    """Lengths are inputs, as GroupQueryAttention wants them."""
    mask = None

    def lengths(self):
        self.last = self.g.input("seqlens_k", "int32", "batch_size")
        self.all_of = self.g.input("total_sequence_length", "int32", 1)


class Places(Group):
    """The same by the names of ONNX Runtime GenAI."""
    mask = None

    def lengths(self):
        self.last = self.g.input("past_seq_len", "int32", "batch_size", 1)
        self.all_of = self.g.input("total_seq_len", "int32")


class Before(Form):
    """How many tokens there were is an input."""

    def past_length(self):
        g = self.g
        return g.op("Squeeze", g.op("Cast", g.input("past_sequence_length", "int32", 1), to=7), g.ints(0))


class Standard(Form):
    """Attention of ONNX itself."""
    opset = 23

    def attend(self, layer, q, k, v):
        outs = [f"/attention_{layer}", *self.present(layer)]
        self.g.nodes.append(("Attention", [q, k, v, self.bias, *self.pasts[layer]], outs,
                             {"q_num_heads": HEADS, "kv_num_heads": HEADS}))
        return outs[0]


class FourBits(Form):
    """The last product's weights are of 4 bits, with zero points."""

    def change_weights(self):
        blocks = self.w["head"].T.reshape(VOCABULARY, DIM // BLOCK, BLOCK)
        low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
        self.scale = ((high - low) / 15).astype("float32")
        self.zero = numpy.clip(numpy.rint(-low / self.scale), 0, 15).astype("uint8")
        self.number = numpy.clip(numpy.rint(blocks / self.scale) + self.zero, 0, 15).astype("uint8")
        real = (self.number.astype("float32") - self.zero) * self.scale
        self.w["head"] = numpy.ascontiguousarray(real.reshape(VOCABULARY, DIM).T)

    def head(self, x):
        g = self.g
        packed = g.weight("head_Q4", self.number[..., ::2] | self.number[..., 1::2] << 4)
        scale = g.weight("head_scales", self.scale.reshape(-1))
        zero = self.zero.reshape(VOCABULARY, -1)
        zero = g.weight("head_zeros", (zero[:, ::2] | zero[:, 1::2] << 4).reshape(-1))
        return g.op("com.microsoft:MatMulNBits", x, packed, scale, zero, K=DIM, N=VOCABULARY, bits=4, block_size=BLOCK)


class Convolved(Form):
    """Before each layer a short convolution, of which the last tokens are kept, as LFM2 has it."""

    def change_weights(self):
        rng = numpy.random.default_rng(23)
        for i in range(LAYERS):
            self.w[f"decoder.{i}.taps"] = (rng.standard_normal((DIM, 1, TAPS)) / 4).astype("float32")

    def mix(self, layer, x):
        g = self.g
        past = g.input(f"past_conv.{layer}", "float32", "batch_size", DIM, TAPS - 1)
        both = g.op("Concat", past, g.op("Transpose", x, perm=[0, 2, 1]), axis=2)
        g.op("Slice", both, g.ints(1 - TAPS), g.ints(1 << 40), g.ints(2), out=f"present_conv.{layer}")
        g.output(f"present_conv.{layer}", "batch_size", DIM, TAPS - 1)
        y = g.op("Conv", both, self.weight(f"decoder.{layer}.taps"), group=DIM)
        return g.op("Add", x, g.op("Transpose", y, perm=[0, 2, 1]))


class Square(Form):
    """What a token may not see is an input of four dimensions."""
    mask = None

    def hidden(self):
        mask = self.g.input("attention_mask", "float32", "batch_size", 1, "sequence_length", "total_sequence_length")
        return self.g.op("Mul", mask, self.const(self.never))


class Full(Form):
    """Room that is written where cache_position says: nothing grows."""
    dims = ("batch_size", HEADS, 64, WIDTH)

    def past_length(self):
        return self.g.of(0, "int64")


FORMS = {c.__name__: c for c in (Form, Bare, Half, Tied, Packed, TokensFirst, Rows, Apart, MultiHead, Fused, Group, Window, Room,
                                 Lengths, Places, Before, Standard, FourBits, Convolved)}
REFUSED = {Square: "input 'attention_mask' is not of 2 dimensions",
           Full: "input 'past_key_values.0.key' is of a fixed length, 64 tokens, and does not grow"}


def write(form, path):
    made = FORMS[form]() if isinstance(form, str) else form()
    made.make()
    path.parent.mkdir(parents=True, exist_ok=True)
    made.g.write(path, opset=made.opset)
    return made.w
