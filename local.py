"""Run embedding and reranking models on this machine, with ONNX Runtime.

    LocalEmbedder("intfloat/multilingual-e5-small").embed(["회의는 3시"], "query")  -> (1, 384) float32
    LocalReranker("/models/reranker").rerank("When is it?", ["At three.", "Blue."]) -> [0.93, 0.02]

A model is a folder with `model.onnx` and `tokenizer.json`, or the id of one on the Hugging Face hub, which is fetched
once into `{base}/.models/{org}--{name}`; from then on there is no network. The folder's own settings say how to pool,
which prefixes to put, and how many tokens the model takes; a longer text is run in overlapping windows, none of it is
cut. The contract and its errors are those of providers.py. This file does not train, convert or quantize models.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from .config import DEFAULT_LOCAL_MODEL, base_folder, expand, scrub
from .providers import (
    INDEXING,
    MODEL_PREFIXES,
    TICK_SECONDS,
    BadAnswer,
    Cancelled,
    Kind,
    ModelNotFound,
    Options,
    Outage,
    ProviderError,
    Refused,
    Report,
    Usage,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HUB = "https://huggingface.co"
WINDOW_OVERLAP = 32  # tokens that two neighbouring windows of a long text share
MOST_WINDOW_TOKENS = 2048  # a model that takes more gets windows too: memory grows with their square
MOST_CORES = 8
CANCELLED = "the work was cancelled"

_Error = TypeVar("_Error", bound=ProviderError)

_HUB_ID = re.compile(r"(?!.*\.\.)([\w][\w.-]*/)?[\w][\w.-]*", re.ASCII)
_SETTINGS = (
    "config.json",
    "tokenizer_config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "1_Pooling/config.json",
)
_QUANTIZED = ("model_quantized", "model_int8")  # 8 bits, in the manner that suits every CPU
_PLAIN = ("model", "model_optimized")
_DEFAULT_LIMIT = 512  # tokens, where a model's settings name none


# --- a model's folder ---


@dataclass(frozen=True, slots=True)
class _Model:
    """A model folder, and what its settings say of its use."""

    weights: Path
    tokenizer: Path
    pooling: str  # mean | cls | last
    limit: int  # tokens of one input, the special ones and the prefix among them
    prefix: Mapping[Kind, str]
    has_dense: bool  # a layer after pooling, which not every export of the model holds


def models_folders() -> list[Path]:
    """Return where hub models lie, in folders named `{org}--{name}`; the first is the one to download into."""
    own = os.environ.get("SEOGA_MODELS")
    return [*([Path(os.path.abspath(expand(own)))] if own else []), base_folder() / ".models"]


def _read_model(folder: Path, name: str) -> _Model | str:
    """Read the settings of a model folder, or say what it lacks. `name` is what the person calls it."""
    files = [*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")]
    weights = _choose_weights([path.relative_to(folder).as_posix() for path in files])
    if weights is None:
        return "it holds no model.onnx (nor onnx/model.onnx)"
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        return "it holds no tokenizer.json"
    config = {file: _settings(folder / file) for file in _SETTINGS}
    has_dense = (folder / "modules.json").is_file() and b"models.Dense" in (folder / "modules.json").read_bytes()
    names = f"{name} {folder.name} {config['config.json'].get('_name_or_path', '')}"
    pooling, prefixes = _pooling(config["1_Pooling/config.json"]), _prefixes(config, names)
    return _Model(folder / weights, tokenizer, pooling, _limit(config), prefixes, has_dense)


def _choose_weights(names: Sequence[str]) -> str | None:
    """Choose among the ONNX files of a model, at the root or in `onnx/`: 8 bits if this CPU computes them rightly."""
    deepest_first = sorted(names, key=lambda name: -name.count("/"))
    stems = {name.rpartition("/")[2].removesuffix(".onnx"): name for name in deepest_first}
    found = next((stems[stem] for stem in _wanted_weights() if stem in stems), None)
    return found or (names[0] if len(names) == 1 else None)


def _wanted_weights() -> tuple[str, ...]:
    """Return the names of weights in the order of preference for this CPU."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "model_qint8_arm64", *_QUANTIZED, *_PLAIN
    vnni = ("model_qint8_avx512_vnni", "model_qint8_avx512")
    if _has_vnni():
        return *vnni, *_QUANTIZED, "model_quint8_avx2", *_PLAIN
    return "model_quint8_avx2", *_QUANTIZED, *_PLAIN, *vnni


def _has_vnni() -> bool:
    """Say whether 8-bit products are added in 32 bits. Without that, full-range weights overflow 16 bits unnoticed."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return re.search(r"\bavx(512)?_vnni\b", file.read(16_384)) is not None
    except OSError:
        return False  # not told by this system: the careful choice


def _settings(path: Path) -> dict[str, Any]:
    """Read one of a model's settings files; one that is absent or no JSON object says nothing."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _pooling(config: Mapping[str, Any]) -> str:
    """Name the pooling of `1_Pooling/config.json`: mean where nothing is said, whatever it says where we don't know it.

    {"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false} -> "cls"
    """
    modes = [
        key.removeprefix("pooling_mode_") for key, on in config.items() if key[:13] == "pooling_mode_" and on is True
    ]
    if isinstance(named := config.get("pooling_mode"), str):
        modes = [named]
    names = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
    return "+".join(names.get(mode, mode) for mode in modes) or "mean"


def _limit(config: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the tokens of one input: the least that a model's settings name."""
    model = config["config.json"]
    places = model.get("max_position_embeddings")
    if isinstance(places, int) and re.search("roberta|mpnet|camembert", str(model.get("model_type"))):
        places -= 2  # they count positions from the padding's number on
    named = (
        places,
        config["sentence_bert_config.json"].get("max_seq_length"),
        config["tokenizer_config.json"].get("model_max_length"),
    )
    honest = [value for value in named if isinstance(value, int) and 16 <= value < 10**6]
    return min([*honest, MOST_WINDOW_TOKENS]) if honest else _DEFAULT_LIMIT


def _prefixes(config: Mapping[str, Mapping[str, Any]], names: str) -> dict[Kind, str]:
    """Return what goes before a text: the prompts the model brings, else those that its name is known for."""
    prompts = config["config_sentence_transformers.json"].get("prompts")
    own = {key: text for key, text in prompts.items() if isinstance(text, str)} if isinstance(prompts, dict) else {}
    document = own.get("document") or own.get("passage") or ""
    query = own.get("query") or own.get("search_query") or ""
    if not document and not query:
        found = (row for row in MODEL_PREFIXES if re.search(row[0], names, re.IGNORECASE))
        _, document, query = next(found, ("", "", ""))
    return {"document": document, "query": query}


# --- bringing a model from the hub, once ---


def bring(
    hub_id: str,
    target: Path,
    report: Report,
    stop: Callable[[], bool],
    *,
    wanted: Callable[[Sequence[str]], list[str]],
    needs: str,
) -> None:
    """Fetch the files of a hub model that `wanted` chooses into `target`, on a thread of its own: `stop` always holds.

    `needs` says what a model must have for `wanted` to choose any. Raises ModelNotFound where it has not, OSError or
    huggingface_hub's errors, and InterruptedError when stopped. A second try resumes the first.
    """
    is_over, failed = threading.Event(), list[Exception]()

    def work() -> None:
        try:
            _download(hub_id, target, report, is_over, wanted, needs)
        except Exception as error:  # noqa: BLE001  raised below: the hub's client has many, and urllib's beside
            failed.append(error)

    thread = threading.Thread(target=work, name="seoga-download", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(TICK_SECONDS)
        if stop():
            is_over.set()
            raise InterruptedError(CANCELLED)
    for error in failed:
        raise error


def _download(
    hub_id: str,
    target: Path,
    report: Report,
    is_over: threading.Event,
    wanted: Callable[[Sequence[str]], list[str]],
    needs: str,
) -> None:
    """Fetch what a model needs into `target`, which appears complete or not at all."""
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # its own threads can't be stopped
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from filelock import FileLock
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import RepositoryNotFoundError

    part = target.parent / f".{target.name}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(part.with_suffix(".lock")):
        if target.is_dir() or is_over.is_set():  # another process was first
            return
        try:
            found = HfApi().model_info(hub_id, timeout=10)
        except RepositoryNotFoundError as error:
            raise ModelNotFound(str(error)) from None
        names = wanted([sibling.rfilename for sibling in found.siblings or []])
        if not names:
            raise ModelNotFound(f"{hub_id} has no {needs} on the hub. Choose a model that has them.")
        for name in names:
            bar = _bar(name, report, is_over)
            hf_hub_download(hub_id, name, revision=found.sha, local_dir=part, tqdm_class=bar)
        shutil.rmtree(part / ".cache", ignore_errors=True)
        for name in names:  # the files reach the disk before the name that says they are complete
            with open(part / name, "rb+") as file:
                os.fsync(file.fileno())
        os.rename(part, target)


def _wanted_files(names: Sequence[str]) -> list[str]:
    """Choose among the files of a hub model: settings, tokenizer, one file of weights with those it refers to."""
    onnx = [name for name in names if name.endswith(".onnx") and name.rpartition("/")[0] in ("", "onnx")]
    weights = _choose_weights(onnx)
    if weights is None or "tokenizer.json" not in names:
        return []
    beside = [name for name in names if re.fullmatch(re.escape(weights) + r"[._]data.*", name)]
    return [*(name for name in _SETTINGS if name in names), "tokenizer.json", *beside, weights]


def _bar(name: str, report: Report, is_over: threading.Event) -> Any:
    """Make the class that huggingface_hub takes for tqdm: it passes the progress on, and ends a download."""

    class Bar:
        def __init__(self, *_: Any, total: float | None = None, initial: float = 0, **__: Any) -> None:
            self.n, self.total = initial, total

        def update(self, n: float | None = 1) -> None:
            if is_over.is_set():
                raise InterruptedError(CANCELLED)
            self.n += n or 0
            report(name, int(self.n), int(self.total or 0))

        def close(self) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

    return Bar


# --- running a model ---


@dataclass(frozen=True, slots=True)
class _Input:
    """The tokens of one run of the model, special ones and prefix among them."""

    ids: list[int]
    types: list[int]
    weight: int  # tokens of the text itself


class _Loaded:
    """A model in memory, which several threads may run at once. e5-small in 8 bits takes 1.5 s and 450 MB."""

    def __init__(self, model: _Model, wanted_output: str) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # it warns in every process that forks after use
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        # Runs side by side on one thread each do a quarter more for the same CPU time than one run on several threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.enable_mem_pattern = False  # of use where all inputs have one shape
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(
            str(model.weights), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self.tokenizer = Tokenizer.from_file(str(model.tokenizer))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self._kinds = {one.name: one.type for one in self.session.get_inputs()}
        outputs = [one.name for one in self.session.get_outputs()]
        known = (wanted_output, "last_hidden_state", "token_embeddings")
        self.output = next((name for name in known if name in outputs), outputs[0])

    @property
    def unknown_inputs(self) -> list[str]:
        return sorted(set(self._kinds) - {"input_ids", "attention_mask", "token_type_ids", "position_ids"})

    def run(self, one: _Input, options: Any) -> NDArray[np.float32]:
        """Return the model's output for one input, float32: (tokens, dimension), (dimension,) or (classes,)."""
        import numpy as np

        values = {
            "input_ids": one.ids,
            "attention_mask": [1] * len(one.ids),
            "token_type_ids": one.types,
            "position_ids": range(len(one.ids)),
        }
        feed = {  # (1, tokens)
            name: np.array([values[name]], np.int32 if "int32" in kind else np.int64)
            for name, kind in self._kinds.items()
        }
        output: NDArray[Any]
        (output,) = self.session.run([self.output], feed, options)
        first: NDArray[np.float32] = output[0].astype(np.float32, copy=False)
        return first


class _LocalRunner:
    """What embedder and reranker share: finding the model, loading it when first used, running it on every core."""

    def __init__(self, model: str, output: str, options: Options) -> None:
        self.name = model
        self.usage = Usage()
        self._output = output
        self._policy = options.get("policy", INDEXING)
        self._stop = options.get("stop", lambda: False)
        self._report = options.get("report", lambda *_: None)
        self._lock = threading.Lock()
        self._model: _Model | None = None
        self._loaded: _Loaded | None = None

    def error(self, kind: type[_Error], what: str) -> _Error:
        error = kind(f"local ({scrub(self.name)}) {what}", provider="local", model=self.name)
        self.usage.last_error = str(error)
        return error

    # --- finding ---

    def model(self) -> _Model:
        """Return the model's folder and settings; a hub model that is nowhere yet is downloaded."""
        with self._lock:
            if self._model is None:
                self._model = self._find()
            return self._model

    def _find(self) -> _Model:
        path = Path(expand(self.name))
        if path.is_absolute():
            if not path.is_dir():
                raise self.error(ModelNotFound, f"is no folder. {self._remedy(path)}")
            return self._read(path)
        if not _HUB_ID.fullmatch(self.name):
            raise self.error(ModelNotFound, "is neither an absolute folder nor a hub id such as org/name.")
        folders = [folder / self.name.replace("/", "--") for folder in models_folders()]
        for folder in folders:
            if folder.is_dir():
                return self._read(folder)
        if not self._policy.downloads:
            raise self.error(
                Outage, f"is not on this machine yet; a search does not fetch it. {self._remedy(folders[0])}"
            )
        self._bring(folders[0])
        return self._read(folders[0])

    def _read(self, folder: Path) -> _Model:
        found = _read_model(folder, self.name)
        if isinstance(found, str):
            raise self.error(ModelNotFound, f"can't be used from {folder}: {found}. {self._remedy(folder)}")
        if found.pooling not in ("mean", "cls", "last"):
            raise self.error(Refused, f"pools by {found.pooling}; mean, cls and last-token pooling are known.")
        return found

    def _remedy(self, folder: Path) -> str:
        source = f" from {HUB}/{self.name}" if _HUB_ID.fullmatch(self.name) else ""
        return (
            f"To bring it by hand: put model.onnx (or model_quantized.onnx) and tokenizer.json{source}, with "
            f"{', '.join(_SETTINGS)} where there are such, into {folder}."
        )

    def _bring(self, folder: Path) -> None:
        needs = "model.onnx and tokenizer.json"
        try:
            bring(self.name, folder, self._report, self._stop, wanted=_wanted_files, needs=needs)
        except InterruptedError:
            raise self.error(Cancelled, f"was not downloaded: {CANCELLED}.") from None
        except Exception as error:  # noqa: BLE001  the hub's client has many, and urllib's beside
            raise self._download_error(error, folder) from None

    def _download_error(self, error: Exception, folder: Path) -> ProviderError:
        said = " ".join(scrub(str(error)).split())[:300] or type(error).__name__
        what = f"can't be downloaded from the hub ({said}). {self._remedy(folder)}"
        return self.error(ModelNotFound if isinstance(error, ModelNotFound) else Outage, what)

    # --- loading and running ---

    def load(self) -> _Loaded:
        model = self.model()
        with self._lock:
            if self._loaded is None:
                self._loaded = self._open(model)
            return self._loaded

    def _open(self, model: _Model) -> _Loaded:
        try:
            loaded = _Loaded(model, self._output)
        except ImportError as error:
            raise self.error(
                Refused,
                f"needs onnxruntime and tokenizers ({error}). `pip install onnxruntime tokenizers` brings them.",
            ) from None
        except Exception as error:  # noqa: BLE001  both libraries raise bare Exception, and what they say goes on
            said = " ".join(str(error).split())[:300]
            remedy = self._remedy(model.weights.parent)
            raise self.error(ModelNotFound, f"can't be loaded from {model.weights}: {said} {remedy}") from None
        if loaded.unknown_inputs:
            raise self.error(Refused, f"wants inputs we don't have: {', '.join(loaded.unknown_inputs)}.")
        if model.has_dense and loaded.output != "sentence_embedding":
            raise self.error(Refused, "has a dense layer after pooling, and its ONNX file ends before that.")
        return loaded

    def run(
        self,
        inputs: Sequence[_Input],
        read: Callable[[NDArray[np.float32]], NDArray[np.float32]],
        seconds: float = math.inf,
    ) -> NDArray[np.float32]:
        """Run the model over each input, on every core; return what `read` makes of its outputs, stacked, in order.

        Each input runs alone: from 100 tokens on a batch takes as much CPU time for each, and what it pads on top; and
        8-bit models scale by a batch's largest number, so that a text's vector would depend on its neighbours.
        `stop` and the end of `seconds` reach into a run: ONNX Runtime looks at `terminate` between two operations.
        """
        import numpy as np
        import onnxruntime

        loaded, options = self.load(), onnxruntime.RunOptions()
        pool = ThreadPoolExecutor(cores(), "seoga-local")
        try:
            runs: dict[int, Future[NDArray[np.float32]]] = {}
            for i in sorted(range(len(inputs)), key=lambda i: -len(inputs[i].ids)):  # so that no core waits at the end
                runs[i] = pool.submit(lambda one: read(loaded.run(one, options)), inputs[i])
            self._await(list(runs.values()), seconds)
        finally:
            options.terminate = True  # whatever still runs, where we leave early
            pool.shutdown(cancel_futures=True)
        with self._lock:
            self.usage.calls += 1
            self.usage.input_tokens += sum(len(one.ids) for one in inputs)
        return np.stack([self._result(runs[i]) for i in range(len(inputs))])

    def _await(self, runs: Sequence[Future[Any]], seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop():
            if not wait(runs, TICK_SECONDS).not_done:
                return
            if time.monotonic() > until:
                raise self.error(Outage, f"gave no answer within {seconds:g} s.")
        raise self.error(Cancelled, f"was ended: {CANCELLED}.")

    def _result(self, run: Future[NDArray[np.float32]]) -> NDArray[np.float32]:
        try:
            return run.result()
        except Exception as error:  # noqa: BLE001  ONNX Runtime's errors share no class of their own
            raise self.error(BadAnswer, f"failed on a text: {' '.join(str(error).split())[:300]}") from None

    def close(self) -> None:
        """Free the memory; the next use loads the model again."""
        with self._lock:
            self._loaded = None


def cores() -> int:
    """Return on how many cores to run: real ones, as two threads of one core share its arithmetic."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed, MOST_CORES))


def _windows(ids: list[int], types: list[int], head: int, tail: int, limit: int) -> list[_Input]:
    """Cut one tokenized text to inputs of at most `limit` tokens; the first `head` and last `tail` go with each.

    The windows are of equal length: 540 tokens at a limit of 512 are twice 286, not 512 and a rest of 60.
    """
    body = len(ids) - head - tail
    room = limit - head - tail
    if body <= room:
        return [_Input(ids, types, max(body, 1))] if ids else [_Input([0], [0], 1)]
    overlap = max(0, min(WINDOW_OVERLAP, room // 4))
    count = -(-(body - overlap) // (room - overlap))
    size = -(-(body + (count - 1) * overlap) // count)

    def window(values: list[int], low: int) -> list[int]:
        return values[:head] + values[low : min(low + size, head + body)] + values[head + body :]

    lows = range(head, head + body - overlap, size - overlap)
    return [_Input(window(ids, low), window(types, low), min(size, head + body - low)) for low in lows]


# --- embedding ---


class LocalEmbedder:
    """A sentence encoder in ONNX: a model folder, or the id of a hub model that is downloaded once."""

    provider = "local"

    def __init__(
        self,
        model: str = DEFAULT_LOCAL_MODEL,
        *,
        dimension: int = 0,
        batch_size: int = 32,
        **options: Unpack[Options],
    ) -> None:
        self.model, self.batch_size = model, batch_size
        self._dimension = dimension  # asked for; 0 is whatever the model has
        self._runner = _LocalRunner(model, "sentence_embedding", options)
        self.usage = self._runner.usage
        self._fingerprint = ""

    def prepare(self) -> None:
        """Download the model if it is not on this machine yet."""
        self._runner.model()

    def fingerprint(self) -> str:
        """Name what decides the vectors, whatever the folder is called; reads the weights, but does not load them."""
        if not self._fingerprint:
            model = self._runner.model()
            hashes = [_hash([model.weights, *_data_files(model.weights)]), _hash([model.tokenizer])]
            self._fingerprint = (
                f"local {model.weights.name} {hashes[0]} tokenizer={hashes[1]} "
                f"dimension={_settings(model.tokenizer.parent / 'config.json').get('hidden_size', 'native')} "
                f"pooling={model.pooling} tokens={model.limit}/{WINDOW_OVERLAP} "
                f"document={model.prefix['document']!r} query={model.prefix['query']!r}"
            )
        return self._fingerprint

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed texts of any number and length: (len(texts), dimension) float32, rows of unit length, in order.

        A text longer than the model takes is embedded in windows; their mean, by tokens, stands for it.
        """
        import numpy as np

        model, tokenizer = self._runner.model(), self._runner.load().tokenizer
        prefix = model.prefix[kind]
        inputs: list[_Input] = []
        starts: list[int] = []  # of each text's windows
        for encoding in tokenizer.encode_batch([prefix + scrub(text) for text in texts]):
            starts.append(len(inputs))
            inputs += _text_windows(encoding, len(prefix.rstrip()), model.limit)
        if not inputs:
            return np.zeros((0, self._dimension), np.float32)
        pooled = self._unit(self._runner.run(inputs, lambda output: _pool(output, model.pooling)))
        weights = np.array([one.weight for one in inputs], np.float32)[:, None]  # (windows, 1)
        self.usage.windowed += sum(low + 1 < high for low, high in zip(starts, [*starts[1:], len(inputs)], strict=True))
        return self._unit(np.add.reduceat(pooled * weights, starts, axis=0))

    def _unit(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        import numpy as np

        norms = np.linalg.norm(rows, axis=1, keepdims=True)  # (n, 1) float32
        if not np.isfinite(norms).all() or not (norms > 1e-12).all():
            raise self._runner.error(BadAnswer, "gave NaN, infinity or zeros. Its weights may be damaged.")
        if self._dimension not in (0, rows.shape[1]):
            raise self._runner.error(
                Refused,
                f"has vectors of {rows.shape[1]} numbers; embedding.dimension says {self._dimension}. Correct either.",
            )
        units: NDArray[np.float32] = rows / norms
        return units

    def close(self) -> None:
        self._runner.close()


def _data_files(weights: Path) -> list[Path]:
    """Return the files that hold the numbers of a model too big for one."""
    return sorted(
        path for path in weights.parent.iterdir() if re.fullmatch(re.escape(weights.name) + r"[._]data.*", path.name)
    )


def _hash(paths: Sequence[Path]) -> str:
    """Return 12 hexadecimal digits of the SHA-256 of files; e5-small in 8 bits takes 0.2 s."""
    whole = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:12]


def _text_windows(encoding: Any, prefix_chars: int, limit: int) -> list[_Input]:
    """Cut a tokenized text; the prefix that it begins with and the special tokens at both ends go with each part."""
    ids, special, offsets = encoding.ids, encoding.special_tokens_mask, encoding.offsets
    if len(ids) <= limit:
        return _windows(ids, encoding.type_ids, 0, 0, limit)
    head = next(i for i in range(len(ids)) if not special[i] and offsets[i][1] > prefix_chars)
    tail = next(i for i in range(len(ids)) if not special[-1 - i])
    return _windows(ids, encoding.type_ids, head, tail, limit)


def _pool(output: NDArray[np.float32], pooling: str) -> NDArray[np.float32]:
    """Make one vector of the tokens' vectors: (tokens, dimension) -> (dimension,) float32."""
    if output.ndim == 1:  # the graph does it
        return output
    pooled: NDArray[np.float32] = {"cls": output[0], "last": output[-1]}.get(pooling, output.mean(axis=0))
    return pooled


# --- reranking ---


class LocalReranker:
    """A cross-encoder in ONNX, which reads query and text together."""

    provider = "local"

    def __init__(self, model: str, **options: Unpack[Options]) -> None:
        self.model = model
        self._seconds = options.get("policy", INDEXING).deadline
        self._runner = _LocalRunner(model, "logits", options)
        self.usage = self._runner.usage

    def prepare(self) -> None:
        """Download the model if it is not on this machine yet; a search does not."""
        self._runner.model()

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score from 0 to 1 for each text; that of a long text is its best window's.

        Of a query that fills more than half of what the model takes, the beginning counts.
        """
        import numpy as np

        if not texts:
            return []
        model, tokenizer = self._runner.model(), self._runner.load().tokenizer
        query = _beginning(tokenizer, scrub(query), model.limit // 2)
        inputs: list[_Input] = []
        starts: list[int] = []
        for encoding in tokenizer.encode_batch([(query, scrub(text)) for text in texts]):
            starts.append(len(inputs))
            body = [i for i, sequence in enumerate(encoding.sequence_ids) if sequence == 1]
            head, tail = (body[0], len(encoding.ids) - 1 - body[-1]) if body else (len(encoding.ids), 0)
            inputs += _windows(encoding.ids, encoding.type_ids, head, tail, model.limit)
        scores = self._runner.run(inputs, _probability, self._seconds)
        if not np.isfinite(scores).all():
            raise self._runner.error(BadAnswer, "gave a score that is no number. Its weights may be damaged.")
        return [float(score) for score in np.maximum.reduceat(scores, starts)]

    def close(self) -> None:
        self._runner.close()


def _beginning(tokenizer: Any, text: str, tokens: int) -> str:
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    return text if len(offsets) <= tokens else text[: offsets[tokens - 1][1]]


def _probability(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn what a cross-encoder says, one number or one for each class (the last is "relevant"), into () float32."""
    import numpy as np

    rest = logits[:-1] if logits.size > 1 else np.zeros(1, np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(rest - logits[-1]).sum()), np.float32)
