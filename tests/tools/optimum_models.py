"""optimum_models.py -- small language models with random weights in the files, with the names and in the form of branches that Hugging
Face's Optimum exports: encoder_model, decoder_model, decoder_with_past_model, and decoder_model_merged, whose If has both decoders.

write(kind, folder): kind "t5", which listens to an encoder (relative positions, RMSNorm), or "gpt", which does not. Returns the weights by
name. In both branches values have the same names, and weights of equal bytes are one, as where Optimum has merged them."""
import numpy

from pbwire import block, number, put_varint

TYPES = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float16": 10}
DIM, HEADS, WIDTH, FFN, LAYERS, VOCABULARY, POSITIONS = 64, 4, 16, 128, 2, 300, 200
BUCKETS, FARTHEST = 32, 100  # of T5's relative positions: no distance lies on the edge of a bucket
NEVER = -1e9


def tensor(name, array):
    array = numpy.asarray(array)
    return (b"".join(number(1, d) for d in array.shape) + number(2, TYPES[str(array.dtype)]) + block(8, name)
            + (block(9, array.tobytes()) if array.size else b""))


def value_info(name, dtype, shape):
    dims = b"".join(block(1, block(2, d) if isinstance(d, str) else number(1, d)) for d in shape)
    return block(1, name) + block(2, block(1, number(1, TYPES[dtype]) + block(2, dims)))


def attribute(name, value):
    if isinstance(value, int):
        return block(1, name) + number(3, value) + number(20, 2)
    if isinstance(value, numpy.ndarray):
        return block(1, name) + block(5, tensor("const_tensor", value)) + number(20, 4)
    if isinstance(value, bytes):
        return block(1, name) + block(6, value) + number(20, 5)
    return block(1, name) + b"".join(number(8, v) for v in value) + number(20, 7)


class Graph:
    """Nodes as (type, inputs, outputs, attributes); what they are of is by name. Types are "Add" or "com.microsoft:Attention"."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.outputs = [], {}, {}, {}

    def op(self, kind, *inputs, out=None, **attributes):
        out = out or f"/{kind.rpartition(':')[2]}_{len(self.nodes)}_output_0"
        self.nodes.append((kind, list(inputs), [out], attributes))
        return out

    def weight(self, name, array):
        self.weights[name] = array
        return name

    def of(self, array, dtype=None):
        """A constant, named by place as exporters do."""
        return self.weight(f"onnx::const_{len(self.nodes)}_{len(self.weights)}", numpy.asarray(array, dtype))

    def ints(self, *values):
        return self.of(values, "int64")

    def floats(self, value):
        return self.of(value, "float32")

    def input(self, name, dtype, *shape):
        self.inputs[name] = (dtype, shape)
        return name

    def output(self, name, *shape, dtype="float32"):
        self.outputs[name] = (dtype, shape)

    def size(self, x, axis):
        return self.op("Gather", self.op("Shape", x), self.of(axis, "int64"), axis=0)

    def range(self, start, stop):
        return self.op("Range", start, stop, self.of(1, "int64"))

    def body(self, name, weights):
        """GraphProto without inputs."""
        out = b"".join(block(1, b"".join(block(1, i) for i in ins) + b"".join(block(2, o) for o in outs) +
                             block(3, f"{kind}_{at}") + block(4, kind.rpartition(":")[2]) +
                             (block(7, kind.rpartition(":")[0]) if ":" in kind else b"") +
                             b"".join(block(5, attribute(k, v)) for k, v in attributes.items()))
                       for at, (kind, ins, outs, attributes) in enumerate(self.nodes))
        out += block(2, name) + b"".join(block(5, tensor(n, a)) for n, a in weights.items())
        return out + b"".join(block(12, value_info(n, *v)) for n, v in self.outputs.items())

    def write(self, path, opset=17):
        graph = self.body("main_graph", self.weights)
        graph += b"".join(block(11, value_info(n, *v)) for n, v in self.inputs.items())
        path.write_bytes(number(1, 8) + block(2, "optimum-onnx") + block(7, graph) + 
                         block(8, block(1, "") + number(2, opset)) + block(8, block(1, "com.microsoft") + number(2, 1)))


def share(graphs):
    """Weights of equal bytes, dimensions and type become one, of a name that no branch has."""
    known, shared = {}, {}
    for graph in graphs:
        renamed = {}
        for name, array in graph.weights.items():
            key = (str(array.dtype), array.shape, array.tobytes())
            known.setdefault(key, f"{name}_merged_0" if f"{name}_merged_0" not in shared else f"{name}_merged_{len(shared)}")
            renamed[name] = known[key]
            shared[known[key]] = array
        graph.nodes = [(k, [renamed.get(i, i) for i in ins], outs, a) for k, ins, outs, a in graph.nodes]
    return shared


def merge(first, following):
    """What one gives and the other does not, keys and values of the encoder, is a constant without elements there."""
    for name, (dtype, shape) in first.outputs.items():
        if name not in following.outputs:
            none = numpy.zeros([0 if isinstance(d, str) else d for d in shape], dtype)
            following.nodes.append(("Constant", [], [name], {"value": none}))
    following.outputs = first.outputs
    whole = Graph()
    whole.weights = share([first, following])
    whole.inputs = {**first.inputs, **following.inputs, "use_cache_branch": ("bool", [1])}
    whole.outputs = first.outputs
    whole.nodes = [("If", ["use_cache_branch"], list(first.outputs),
                    {"then_branch": following.body("with_past", {}), "else_branch": first.body("no_past", {})})]
    return whole


# -- models --


def random_weights(kind):
    rng = numpy.random.default_rng(17)
    weights = {}

    def add(name, *shape, std=None):
        weights[name] = (rng.standard_normal(shape) * (std or shape[0] ** -0.5)).astype(numpy.float32)

    def add_attention(at):
        for what in "qkv":
            add(f"{at}.{what}", DIM, HEADS * WIDTH)
        add(f"{at}.o", HEADS * WIDTH, DIM)

    add("shared", VOCABULARY, DIM, std=1)
    add("head", DIM, VOCABULARY)
    for side in ("encoder", "decoder") if kind == "t5" else ("decoder",):
        add(f"{side}.relative" if kind == "t5" else "positions", BUCKETS if kind == "t5" else POSITIONS,
            HEADS if kind == "t5" else DIM, std=1)
        for i in range(LAYERS):
            add_attention(f"{side}.{i}.self")
            if kind == "t5" and side == "decoder":
                add_attention(f"{side}.{i}.cross")
            add(f"{side}.{i}.up", DIM, FFN)
            add(f"{side}.{i}.down", FFN, DIM)
            for norm in ("self_norm", "cross_norm", "ffn_norm"):
                weights[f"{side}.{i}.{norm}"] = (1 + rng.standard_normal(DIM) / 10).astype(numpy.float32)
        weights[f"{side}.norm"] = (1 + rng.standard_normal(DIM) / 10).astype(numpy.float32)
    return weights


class Maker:
    def __init__(self, weights, past):
        self.g, self.w, self.past = Graph(), weights, past

    def weight(self, name):
        return self.g.weight(name, self.w[name])

    def norm(self, x, name):
        g = self.g
        mean = g.op("ReduceMean", g.op("Pow", x, g.floats(2)), axes=[-1])
        x = g.op("Div", x, g.op("Sqrt", g.op("Add", mean, g.floats(1e-6))))
        return g.op("Mul", x, self.weight(name))

    def heads(self, x):
        g = self.g
        return g.op("Transpose", g.op("Reshape", x, g.ints(0, -1, HEADS, WIDTH)), perm=[0, 2, 1, 3])

    def project(self, x, name):
        return self.heads(self.g.op("MatMul", x, self.weight(name)))

    def attend(self, x, at, k, v, bias, scale):
        g = self.g
        q = self.project(x, f"{at}.q")
        scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
        if scale != 1:
            scores = g.op("Mul", scores, g.floats(scale))
        weights = g.op("Softmax", g.op("Add", scores, bias), axis=-1)
        mixed = g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        return g.op("MatMul", g.op("Reshape", mixed, g.ints(0, -1, HEADS * WIDTH)), self.weight(f"{at}.o"))

    def feed_forward(self, x, at):
        g = self.g
        y = g.op("Relu", g.op("MatMul", self.norm(x, f"{at}.ffn_norm"), self.weight(f"{at}.up")))
        return g.op("Add", x, g.op("MatMul", y, self.weight(f"{at}.down")))

    def hidden(self, mask):
        """[batch, 1, 1, places]: a very small number where the mask has 0."""
        g = self.g
        keep = g.op("Cast", g.op("Unsqueeze", mask, g.ints(1, 2)), to=1)
        return g.op("Mul", g.op("Sub", g.floats(1), keep), g.floats(NEVER))

    def relative(self, rows, columns, side):
        """[1, heads, rows, columns], by how far a column is from a row."""
        g, half = self.g, BUCKETS // 2 if side == "encoder" else BUCKETS
        far = g.op("Sub", g.op("Unsqueeze", columns, g.ints(0)), g.op("Unsqueeze", rows, g.ints(1)))
        bucket = None
        if side == "encoder":
            behind = g.op("Cast", g.op("Greater", far, g.ints(0)), to=7)
            bucket = g.op("Mul", behind, g.ints(half))
            far = g.op("Abs", far)
        else:
            far = g.op("Neg", g.op("Min", far, g.op("ConstantOfShape", g.op("Shape", far), value=numpy.zeros(1, "int64"))))
        exact = half // 2
        share_of = g.op("Div", g.op("Log", g.op("Div", g.op("Cast", far, to=1), g.floats(exact))),
                        g.floats(numpy.log(FARTHEST / exact)))
        large = g.op("Add", g.op("Cast", g.op("Mul", share_of, g.floats(half - exact)), to=7), g.ints(exact))
        large = g.op("Min", large, g.ints(half - 1))
        far = g.op("Where", g.op("Less", far, g.ints(exact)), far, large)
        bucket = g.op("Add", bucket, far) if bucket else far
        bias = g.op("Gather", self.weight(f"{side}.relative"), bucket)
        return g.op("Unsqueeze", g.op("Transpose", bias, perm=[2, 0, 1]), g.ints(0))

    def encoder(self):
        g = self.g
        ids = g.input("input_ids", "int64", "batch_size", "encoder_sequence_length")
        mask = g.input("attention_mask", "int64", "batch_size", "encoder_sequence_length")
        places = g.range(g.of(0, "int64"), g.size(ids, 1))
        bias = g.op("Add", self.relative(places, places, "encoder"), self.hidden(mask))
        x = g.op("Gather", self.weight("shared"), ids)
        for i in range(LAYERS):
            at = f"encoder.{i}"
            y = self.norm(x, f"{at}.self_norm")
            y = self.attend(y, f"{at}.self", self.project(y, f"{at}.self.k"), self.project(y, f"{at}.self.v"), bias, 1)
            x = self.feed_forward(g.op("Add", x, y), at)
        g.op("Mul", self.norm(x, "encoder.norm"), g.floats(1), out="last_hidden_state")
        g.output("last_hidden_state", "batch_size", "encoder_sequence_length", DIM)
        return g

    def cached(self, new, layer, what, side):
        """Behind what was there before."""
        g, name = self.g, f"{layer}.{side}{what}"
        if self.past:
            before = g.input(f"past_key_values.{name}", "float32", "batch_size", HEADS, "past_length", WIDTH)
            return g.op("Concat", before, new, out=f"present.{name}", axis=2)
        return g.op("Identity", new, out=f"present.{name}")

    def kept(self, states, layer, what, name):
        """Of what the encoder gave."""
        g = self.g
        if self.past:
            return g.input(f"past_key_values.{layer}.encoder.{what}", "float32", "batch_size", HEADS,
                           "encoder_sequence_length_out", WIDTH)
        return g.op("Identity", self.project(states, name), out=f"present.{layer}.encoder.{what}")

    def decoder(self, listens):
        """It and its outputs, in the order of their layers."""
        g, side = self.g, "decoder." if listens else ""
        states = heard = None
        if listens:
            heard = self.hidden(g.input("encoder_attention_mask", "int64", "batch_size", "encoder_sequence_length"))
        ids = g.input("input_ids", "int64", "batch_size", "decoder_sequence_length")
        if listens and not self.past:
            states = g.input("encoder_hidden_states", "float32", "batch_size", "encoder_sequence_length", DIM)
        new = g.size(ids, 1)
        if self.past:
            name = g.input(f"past_key_values.0.{side}key", "float32", "batch_size", HEADS, "past_length", WIDTH)
            start = g.size(name, 2)
        else:
            start = g.of(0, "int64")
        total = g.op("Add", start, new)
        rows, columns = g.range(start, total), g.range(g.of(0, "int64"), total)
        later = g.op("Greater", g.op("Unsqueeze", columns, g.ints(0)), g.op("Unsqueeze", rows, g.ints(1)))
        bias = g.op("Where", later, g.floats(NEVER), g.floats(0))
        x = g.op("Gather", self.weight("shared"), ids)
        if listens:
            bias = g.op("Add", bias, self.relative(rows, columns, "decoder"))
        else:
            mask = g.input("attention_mask", "int64", "batch_size", "past_length + sequence_length")
            bias = g.op("Add", bias, self.hidden(mask))
            x = g.op("Add", x, g.op("Gather", self.weight("positions"), rows))
        scale = 1 if listens else WIDTH ** -0.5
        for i in range(LAYERS):
            at = f"decoder.{i}"
            y = self.norm(x, f"{at}.self_norm")
            k = self.cached(self.project(y, f"{at}.self.k"), i, "key", side)
            v = self.cached(self.project(y, f"{at}.self.v"), i, "value", side)
            x = g.op("Add", x, self.attend(y, f"{at}.self", k, v, bias, scale))
            if listens:
                y = self.norm(x, f"{at}.cross_norm")
                k, v = (self.kept(states, i, what, f"{at}.cross.{what[0]}") for what in ("key", "value"))
                x = g.op("Add", x, self.attend(y, f"{at}.cross", k, v, heard, 1))
            x = self.feed_forward(x, at)
        x = self.norm(x, "decoder.norm")
        g.op("MatMul", x, self.weight("head"), out="logits")
        g.output("logits", "batch_size", "decoder_sequence_length", VOCABULARY)
        for i in range(LAYERS):
            for what in ("key", "value"):
                g.output(f"present.{i}.{side}{what}", "batch_size", HEADS, "past_length + sequence_length", WIDTH)
            for what in ("key", "value") if listens and not self.past else ():
                g.output(f"present.{i}.encoder.{what}", "batch_size", HEADS, "encoder_sequence_length_out", WIDTH)
        return g


def write(kind, folder):
    """Folders: merged, and pair; of "gpt" also one, whose past may be empty."""
    weights, listens = random_weights(kind), kind == "t5"
    for name in ("merged", "pair", "one"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        if listens and name != "one":
            Maker(weights, False).encoder().write(folder / name / "encoder_model.onnx")
    parts = [Maker(weights, past).decoder(listens) for past in (False, True)]
    parts[0].write(folder / "pair" / "decoder_model.onnx")
    parts[1].write(folder / "pair" / "decoder_with_past_model.onnx")
    if not listens:
        parts[1].write(folder / "one" / "model.onnx")
    merge(*parts).write(folder / "merged" / "decoder_model_merged.onnx")
    return weights
