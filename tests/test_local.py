"""Models on this machine: real weights for what vectors mean, tiny made ones for the settings, a loopback hub."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from seoga import local
from seoga.config import Embedding, Rerank
from seoga.local import WINDOW_OVERLAP, LocalEmbedder, LocalReranker
from seoga.providers import (
    SEARCHING,
    BadAnswer,
    Cancelled,
    ModelNotFound,
    Outage,
    Policy,
    Refused,
    embed_each,
    make_embedder,
    make_reranker,
)

ROOT = Path(__file__).parents[1]
WIDTH = 32  # of the tiny models
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "passage", "query", ":", "one", "two", "three", "four", "five", "six"]
WORDS += ["seven", "red", "green", "blue"]


def load_converter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bert2onnx", ROOT / "bench" / "bert2onnx.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bert2onnx"] = module  # where dataclasses look their module up
    with warnings.catch_warnings(action="ignore"):
        spec.loader.exec_module(module)
    return module


converter = load_converter()


@pytest.fixture(scope="session")
def e5_folder() -> Path:
    """The real multilingual-e5-small in 8 bits: made in about a minute at first, kept for later runs."""
    with warnings.catch_warnings(action="ignore"):
        folder: Path = converter.model_folder("e5", int8=True)
    return folder


@pytest.fixture(scope="session")
def e5(e5_folder: Path) -> Iterator[LocalEmbedder]:
    embedder = LocalEmbedder(str(e5_folder))
    yield embedder
    embedder.close()


def make_model(folder: Path, *, classes: int = 0, seed: int = 1, places: int = 64, name: str = "model.onnx") -> Path:
    """Write a tiny model with random weights and a tokenizer that knows WORDS."""
    import onnx
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    random = np.random.default_rng(seed)
    shapes = {"embedding.words": (len(WORDS), WIDTH), "embedding.places": (places, WIDTH)}
    square, wide = (WIDTH, WIDTH), (2 * WIDTH, WIDTH)
    for layer in range(2):
        parts = {"q": square, "k": square, "v": square, "attended": square, "up": wide, "down": wide[::-1]}
        for part, shape in parts.items():
            shapes |= {f"{layer}.{part}.weight": shape, f"{layer}.{part}.bias": shape[:1]}
    if classes:
        shapes |= {"classifier.weight": (classes, WIDTH), "classifier.bias": (classes,)}
    weights = {key: random.normal(0, 0.5, shape).astype(np.float32) for key, shape in shapes.items()}
    for norm in ("embedding.norm", *(f"{layer}.norm{n}" for layer in range(2) for n in (1, 2))):
        weights |= {f"{norm}.weight": np.ones(WIDTH, np.float32), f"{norm}.bias": np.zeros(WIDTH, np.float32)}
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(converter.build(converter.Bert(weights, 2, 4, 1e-12), classes=classes), folder / name)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(8)  # as many models' files have it; ours must not cut
    tokenizer.save(str(folder / "tokenizer.json"))
    settings(folder, "config.json", hidden_size=WIDTH, max_position_embeddings=places)
    return folder


def settings(folder: Path, name: str, **values: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(values), encoding="utf-8")


def run_directly(weights: Path, ids: list[int]) -> NDArray[np.float32]:
    """Return a model's last hidden state for one text, (tokens, dimension), by ONNX Runtime alone."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(weights))
    feed = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
    (output,) = session.run(None, feed)
    hidden: NDArray[np.float32] = output[0]
    return hidden


def unit(vector: NDArray[Any]) -> NDArray[Any]:
    scaled: NDArray[Any] = vector / np.linalg.norm(vector)
    return scaled


def tokens_of(folder: Path, text: str) -> list[int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    ids: list[int] = tokenizer.encode(text).ids
    return ids


# --- real weights ---

KOREAN = "회의는 삼월 둘째 주에 부산에서 열리며, 참석자는 지난 분기의 예산 집행 내역을 미리 읽어 와야 한다. "


@pytest.mark.parametrize(("kind", "prefix"), [("document", "passage: "), ("query", "query: ")])
def test_a_vector_is_the_mean_of_the_tokens_of_prefix_and_text(
    e5: LocalEmbedder, e5_folder: Path, kind: Any, prefix: str
) -> None:
    hidden = run_directly(e5_folder / "model_quantized.onnx", tokens_of(e5_folder, prefix + KOREAN))
    np.testing.assert_allclose(e5.embed([KOREAN], kind)[0], unit(hidden.mean(axis=0)), atol=1e-5)


def test_vectors_are_float32_of_unit_length_and_differ_between_query_and_document(e5: LocalEmbedder) -> None:
    documents, queries = e5.embed([KOREAN, "short"], "document"), e5.embed([KOREAN, "short"], "query")
    assert documents.shape == (2, 384)
    assert documents.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1, atol=1e-6)
    assert (np.sum(documents * queries, axis=1) < 0.999).all()


def test_a_korean_question_finds_its_english_passage(e5: LocalEmbedder) -> None:
    passages = [
        "Bread dough rests under a damp cloth until it doubles in size.",
        "The database rebuilds its index overnight, when traffic is low.",
        "Employees get fifteen days of paid leave after their first year of work.",
        "The warranty covers faults in the compressor for five years.",
        "Passengers have to be at the counter two hours before departure.",
    ]
    scores = e5.embed(passages, "document") @ e5.embed(["입사 후 일 년이 지나면 유급 휴가는 며칠인가요?"], "query")[0]
    assert int(scores.argmax()) == 2


def test_a_text_beyond_the_limit_is_embedded_whole(e5: LocalEmbedder, e5_folder: Path) -> None:
    topics = (
        KOREAN,
        "김치찌개는 돼지고기와 묵은지를 넣고 약한 불에서 삼십 분 동안 끓인다. ",
        "서버의 복제본은 매일 밤 검증되고 백업된다. ",
    )
    parts = [(topic * 60)[:1000] for topic in topics]
    whole = e5.embed(["".join(parts)], "document")[0]
    mean = unit(e5.embed(parts, "document").mean(axis=0))
    ids = tokens_of(e5_folder, "passage: " + "".join(parts))
    assert len(ids) > 3 * 512 * 0.8
    cut = unit(run_directly(e5_folder / "model_quantized.onnx", ids[:511] + ids[-1:]).mean(axis=0))
    assert whole @ mean > 0.98
    assert whole @ cut < whole @ mean - 0.02
    assert np.linalg.norm(whole) == pytest.approx(1, abs=1e-6)


def test_a_text_has_the_same_vector_alone_and_among_others_of_any_length(e5: LocalEmbedder) -> None:
    texts = ["이 " * 200, "회의", KOREAN * 3, "", "a longer text about storage and backups", "부산 " * 40]
    together = e5.embed(texts, "document")
    alone = np.vstack([e5.embed([text], "document") for text in texts])
    np.testing.assert_array_equal(together, alone)
    assert len({row.tobytes() for row in together}) == len(texts)


def test_two_loads_give_the_same_bytes(e5: LocalEmbedder, e5_folder: Path) -> None:
    again = LocalEmbedder(str(e5_folder))
    assert again.embed([KOREAN], "document").tobytes() == e5.embed([KOREAN], "document").tobytes()
    assert again.fingerprint() == e5.fingerprint()


def test_several_threads_get_what_one_would(e5: LocalEmbedder) -> None:
    texts = [f"{KOREAN} {n}" for n in range(6)]
    expected = e5.embed(texts, "document")
    found: dict[int, NDArray[np.float32]] = {}
    threads = [
        threading.Thread(target=lambda i=i: found.update({i: e5.embed([texts[i]], "document")[0]})) for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.vstack([found[i] for i in range(6)]), expected)


def test_stop_ends_a_long_call_within_two_seconds(e5_folder: Path) -> None:
    began = time.monotonic()
    embedder = LocalEmbedder(str(e5_folder), stop=lambda: time.monotonic() - began > 0.5)
    embedder._runner.load()
    began = time.monotonic()
    with pytest.raises(Cancelled):
        embedder.embed([KOREAN * 30] * 200, "document")
    assert time.monotonic() - began < 2.5


def test_the_network_is_not_touched_when_the_model_is_here(
    e5_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the network was touched")

    (tmp_path / "intfloat--multilingual-e5-small").symlink_to(e5_folder)
    monkeypatch.setenv("SEOGA_MODELS", str(tmp_path))
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embedder = LocalEmbedder(policy=SEARCHING)
    assert embedder.embed(["회의"], "query").shape == (1, 384)
    assert "passage: " in embedder.fingerprint()


# --- tiny weights: what a folder's settings say ---


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def own(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may change."""
    return Path(shutil.copytree(tiny, tmp_path / "own"))


@pytest.mark.parametrize(
    ("config", "pool"),
    [
        ({}, lambda hidden: hidden.mean(axis=0)),
        ({"pooling_mode_mean_tokens": True, "include_prompt": True}, lambda hidden: hidden.mean(axis=0)),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, lambda hidden: hidden[0]),
        ({"pooling_mode_lasttoken": True}, lambda hidden: hidden[-1]),
        ({"pooling_mode": "cls"}, lambda hidden: hidden[0]),
    ],
)
def test_tokens_are_pooled_as_the_folder_says(
    own: Path, config: dict[str, Any], pool: Callable[[NDArray[np.float32]], NDArray[np.float32]]
) -> None:
    settings(own, "1_Pooling/config.json", **config)
    hidden = run_directly(own / "model.onnx", tokens_of(own, "one two"))
    np.testing.assert_allclose(LocalEmbedder(str(own)).embed(["one two"], "query")[0], unit(pool(hidden)), atol=1e-5)


def test_pooling_that_is_not_known_is_refused_by_name(own: Path) -> None:
    settings(own, "1_Pooling/config.json", pooling_mode_max_tokens=True)
    with pytest.raises(Refused, match="max_tokens; mean, cls"):
        LocalEmbedder(str(own)).embed(["one"], "query")


@pytest.mark.parametrize(
    ("name", "prompts", "document", "query"),
    [
        ("model", None, "", ""),
        ("model", {"query": "query : ", "passage": "passage : "}, "passage : ", "query : "),
        ("model", {"query": "one ", "document": ""}, "", "one "),
        ("my-e5-base", {"query": "", "document": ""}, "passage: ", "query: "),
        ("multilingual-e5-large-instruct", None, "", "Instruct: "),
        ("phone5", None, "", ""),
    ],
)
def test_prefixes_are_the_folders_own_or_the_familys(
    own: Path, tmp_path: Path, name: str, prompts: dict[str, str] | None, document: str, query: str
) -> None:
    folder = own.rename(tmp_path / name)
    if prompts is not None:
        settings(folder, "config_sentence_transformers.json", prompts=prompts)
    embedder = LocalEmbedder(str(folder))
    assert f"document={document!r} " in embedder.fingerprint()
    assert re.search(re.escape(f"query={query!r}"[:-1]) + ".*'", embedder.fingerprint())
    bare = run_directly(folder / "model.onnx", tokens_of(folder, document + "two")).mean(axis=0)
    np.testing.assert_allclose(embedder.embed(["two"], "document")[0], unit(bare), atol=1e-5)


def test_the_least_limit_that_is_named_counts(own: Path) -> None:
    for name, values, limit in (
        ("tokenizer_config.json", {"model_max_length": 10**30}, 64),
        ("config.json", {"max_position_embeddings": 514, "model_type": "xlm-roberta"}, 512),
        ("config.json", {"max_position_embeddings": 8194, "model_type": "xlm-roberta"}, 2048),
        ("sentence_bert_config.json", {"max_seq_length": 32}, 32),
    ):
        settings(own, name, **values)
        assert f"tokens={limit}/" in LocalEmbedder(str(own)).fingerprint()


def test_windows_repeat_the_prefix_and_the_mean_goes_by_tokens(own: Path) -> None:
    settings(own, "config_sentence_transformers.json", prompts={"query": "query : ", "document": "passage : "})
    body = [7 + n % 10 for n in range(130)]  # room for 60 in each window
    text = " ".join(WORDS[i] for i in body)
    embedder = LocalEmbedder(str(own))
    overlap = 15  # a quarter of the room, as 32 are more
    size, step = 54, 39  # (130 + 2 x 15) / 3, rounded up
    windows = [body[low : low + size] for low in (0, step, 2 * step)]
    assert 64 - 4 == 60
    assert size - step == overlap
    vectors = [
        unit(run_directly(own / "model.onnx", [1, 4, 6, *window, 2]).mean(axis=0)) * len(window) for window in windows
    ]
    np.testing.assert_allclose(embedder.embed([text], "document")[0], unit(np.sum(vectors, axis=0)), atol=1e-5)
    assert embedder.usage.windowed == 1


@given(body=st.integers(0, 3000), head=st.integers(0, 10), tail=st.integers(0, 3), limit=st.integers(16, 600))
def test_windows_cover_every_token_and_stay_within_the_limit(body: int, head: int, tail: int, limit: int) -> None:
    ids = list(range(head + body + tail))
    if head + tail + 4 > limit:
        return
    windows = local._windows(ids, [0] * len(ids), head, tail, limit)
    assert all(1 <= len(one.ids) <= limit and len(one.ids) == len(one.types) for one in windows)
    if ids:
        assert set().union(*(one.ids for one in windows)) == set(ids)
    if len(ids) > limit:
        sizes = [one.weight for one in windows]
        room = limit - head - tail
        assert len(windows) == -(-(body - min(WINDOW_OVERLAP, room // 4)) // (room - min(WINDOW_OVERLAP, room // 4)))
        assert all(len(one.ids) == one.weight + head + tail for one in windows)
        assert max(sizes) - min(sizes) <= len(windows)


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "😀" * 300, "one\n" * 5000])
def test_any_text_has_a_vector(tiny: Path, text: str) -> None:
    assert np.isfinite(LocalEmbedder(str(tiny)).embed([text], "document")).all()


def test_no_texts_have_no_vectors(tiny: Path) -> None:
    assert LocalEmbedder(str(tiny)).embed([], "document").shape[0] == 0


def test_usage_counts_calls_and_the_models_own_tokens(tiny: Path) -> None:
    embedder = LocalEmbedder(str(tiny))
    embedder.embed(["one two three", "one"], "document")
    assert (embedder.usage.calls, embedder.usage.input_tokens) == (1, 5 + 3)


def test_a_stop_before_the_start_is_cancelled(tiny: Path) -> None:
    embedder = LocalEmbedder(str(tiny), stop=lambda: True)
    with pytest.raises(Cancelled, match="tiny"):
        embedder.embed(["one"], "document")
    assert "cancelled" in embedder.usage.last_error


def test_a_closed_embedder_loads_again_when_it_is_used(tiny: Path) -> None:
    embedder = LocalEmbedder(str(tiny))
    before = embedder.embed(["one"], "query")
    embedder.close()
    np.testing.assert_array_equal(embedder.embed(["one"], "query"), before)


def test_a_dimension_that_differs_is_refused_with_both_values(tiny: Path) -> None:
    assert LocalEmbedder(str(tiny), dimension=WIDTH).embed(["one"], "query").shape == (1, WIDTH)
    with pytest.raises(Refused, match=r"32 numbers.*768"):
        LocalEmbedder(str(tiny), dimension=768).embed(["one"], "query")


# --- tiny weights: the fingerprint ---


def test_the_fingerprint_names_the_file_and_follows_its_content_not_the_folders_name(own: Path, tmp_path: Path) -> None:
    first = LocalEmbedder(str(own)).fingerprint()
    assert "model.onnx" in first
    assert f"dimension={WIDTH} pooling=mean tokens=64/32" in first
    renamed = own.rename(tmp_path / "elsewhere")
    assert LocalEmbedder(str(renamed)).fingerprint() == first
    make_model(renamed, seed=2)
    assert LocalEmbedder(str(renamed)).fingerprint() != first


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("sentence_bert_config.json", {"max_seq_length": 20}),
        ("config_sentence_transformers.json", {"prompts": {"query": "one"}}),
        ("tokenizer.json", {}),
    ],
)
def test_the_fingerprint_changes_with_what_decides_the_vectors(own: Path, name: str, values: dict[str, Any]) -> None:
    before = LocalEmbedder(str(own)).fingerprint()
    settings(own, name, **values)
    assert LocalEmbedder(str(own)).fingerprint() != before


# --- which file of weights ---

HUB_FILES = [
    "onnx/model.onnx",
    "onnx/model_O4.onnx",
    "onnx/model_qint8_arm64.onnx",
    "onnx/model_qint8_avx512_vnni.onnx",
    "onnx/model_quint8_avx2.onnx",
]


@pytest.mark.parametrize(
    ("files", "machine", "vnni", "chosen"),
    [
        (HUB_FILES, "x86_64", True, "onnx/model_qint8_avx512_vnni.onnx"),
        (HUB_FILES, "AMD64", False, "onnx/model_quint8_avx2.onnx"),
        (HUB_FILES, "arm64", False, "onnx/model_qint8_arm64.onnx"),
        (["onnx/model.onnx", "onnx/model_qint8_avx512_vnni.onnx"], "x86_64", False, "onnx/model.onnx"),
        (["onnx/model.onnx", "onnx/model_quantized.onnx"], "aarch64", False, "onnx/model_quantized.onnx"),
        (["onnx/model.onnx", "model.onnx"], "x86_64", True, "model.onnx"),
        (["onnx/model_int8.onnx", "model.onnx"], "x86_64", False, "onnx/model_int8.onnx"),
        (["encoder.onnx"], "x86_64", True, "encoder.onnx"),
        (["encoder.onnx", "decoder.onnx"], "x86_64", True, None),
        ([], "x86_64", True, None),
    ],
)
def test_eight_bits_are_preferred_where_this_cpu_computes_them_rightly(
    files: list[str], machine: str, vnni: bool, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(local, "_has_vnni", lambda: vnni)
    assert local._choose_weights(files) == chosen
    assert local._choose_weights(files[::-1]) == chosen


def test_weights_in_the_onnx_folder_are_found(own: Path) -> None:
    expected = LocalEmbedder(str(own)).embed(["one"], "query")
    (own / "onnx").mkdir()
    (own / "model.onnx").rename(own / "onnx" / "model.onnx")
    np.testing.assert_array_equal(LocalEmbedder(str(own)).embed(["one"], "query"), expected)


# --- folders that can't be used ---


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_an_incomplete_folder_is_named_with_the_remedy(own: Path, missing: str) -> None:
    (own / missing).unlink()
    with pytest.raises(
        ModelNotFound, match=rf"{re.escape(str(own))}: it holds no {missing}.*bring it by hand"
    ) as caught:
        LocalEmbedder(str(own)).embed(["one"], "query")
    assert (caught.value.provider, caught.value.model) == ("local", str(own))


def test_a_folder_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"is no folder.*tokenizer\.json.* into .*gone"):
        LocalEmbedder(str(tmp_path / "gone")).fingerprint()


@pytest.mark.parametrize("model", ["../secret", "a/../../b", "a/b/c", "", "..", "org/na me"])
def test_a_name_that_is_no_hub_id_never_becomes_a_path(model: str) -> None:
    with pytest.raises(ModelNotFound, match="neither an absolute folder nor a hub id"):
        LocalEmbedder(model).fingerprint()


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_named_with_the_remedy(own: Path, broken: str) -> None:
    data = (own / broken).read_bytes()
    (own / broken).write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelNotFound, match=r"can't be loaded.*bring it by hand"):
        LocalEmbedder(str(own)).embed(["one"], "query")


def test_a_vector_of_nan_is_an_error(own: Path) -> None:
    import onnx
    from onnx import numpy_helper

    model = onnx.load(own / "model.onnx")
    words = next(one for one in model.graph.initializer if one.name == "words")
    words.CopyFrom(numpy_helper.from_array(np.full((len(WORDS), WIDTH), np.nan, np.float32), "words"))
    onnx.save(model, own / "model.onnx")
    with pytest.raises(BadAnswer, match="NaN"):
        LocalEmbedder(str(own)).embed(["one"], "query")


def test_a_text_that_the_model_fails_on_is_told_apart_from_the_rest(own: Path) -> None:
    settings(own, "config.json", max_position_embeddings=2048)  # where it has 64
    found = embed_each(LocalEmbedder(str(own)), ["one", "two " * 1000, "three"])
    assert [isinstance(one, np.ndarray) for one in found] == [True, False, True]
    assert isinstance(found[1], BadAnswer)


def test_nothing_heavy_is_imported_before_the_first_use(tiny: Path) -> None:
    code = (
        "import sys; from seoga.local import LocalEmbedder; LocalEmbedder(sys.argv[1]).fingerprint();"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'huggingface_hub', 'httpx'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code, str(tiny)).stdout.strip() == "[]"


def test_the_makers_make_them() -> None:
    embedder = make_embedder(Embedding(provider="Local", model="a/b", dimension=8, batch_size=7))
    assert isinstance(embedder, LocalEmbedder)
    assert (embedder.model, embedder.batch_size, embedder.provider) == ("a/b", 7, "local")
    assert isinstance(make_reranker(Rerank(provider="local", model="a/c")), LocalReranker)


# --- the hub, on loopback ---


class Hub(ThreadingHTTPServer):
    """Serves one folder as the model `acme/tiny`, as the hub does; `stall` bytes into a file it goes silent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.folder, self.stall, self.asked = folder, 0, list[str]()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        files = [file.relative_to(self.server.folder).as_posix() for file in self.server.folder.rglob("*.*")]
        if path.startswith("/api/models/acme/tiny"):
            found = {"id": "acme/tiny", "sha": "a" * 40, "siblings": [{"rfilename": name} for name in files]}
            self.answer(json.dumps(found).encode(), {"Content-Type": "application/json"})
        elif (name := path.removeprefix(f"/acme/tiny/resolve/{'a' * 40}/")) in files:
            if self.command == "GET":
                self.server.asked.append(name)
            self.answer(
                (self.server.folder / name).read_bytes(),
                {"X-Repo-Commit": "a" * 40, "ETag": f'"{name.encode().hex()}"'},
            )
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def answer(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.stall and len(body) > self.server.stall:
            self.wfile.write(body[: self.server.stall])
            self.server.closing.wait(60)
            return
        self.wfile.write(body)


@pytest.fixture
def hub(tiny: Path, tmp_path: Path) -> Iterator[Hub]:
    folder = Path(shutil.copytree(tiny, tmp_path / "on-the-hub"))
    make_model(folder, name="onnx/model_quantized.onnx", seed=3)
    (folder / "model.safetensors").write_bytes(b"not needed")
    server = Hub(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


def run_python(code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1", **variables}
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)


BRING = """
import json, sys, time
from seoga.local import LocalEmbedder
from seoga.providers import ProviderError
seen, began = [], time.monotonic()
stop_after = float(sys.argv[2])
embedder = LocalEmbedder(
    sys.argv[1], report=lambda *one: seen.append(one), stop=lambda: time.monotonic() - began > stop_after
)
try:
    rows, error = embedder.embed(["one two"], "query").tolist(), ""
except ProviderError as caught:
    rows, error = [], f"{type(caught).__name__}: {caught}"
print(json.dumps({"rows": rows, "error": error, "seen": seen, "seconds": time.monotonic() - began}))
"""


def bring(home: Path, endpoint: str, *, model: str = "acme/tiny", stop_after: float = 100) -> Any:
    done = run_python(
        BRING, model, str(stop_after), SEOGA_HOME=str(home), HF_ENDPOINT=endpoint, HF_HOME=str(home / "hf")
    )
    return json.loads(done.stdout)


def test_a_hub_model_is_downloaded_once_with_progress_and_only_what_is_needed(hub: Hub, tmp_path: Path) -> None:
    first = bring(tmp_path, hub.url)
    assert first["error"] == ""
    expected = LocalEmbedder(str(hub.folder)).embed(["one two"], "query")
    np.testing.assert_allclose(first["rows"], expected, atol=1e-6)
    folder = tmp_path / ".models" / "acme--tiny"
    brought = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert brought == {"config.json", "tokenizer.json", "onnx/model_quantized.onnx"}
    size = (folder / "onnx" / "model_quantized.onnx").stat().st_size
    assert ["onnx/model_quantized.onnx", size, size] in first["seen"]
    asked = len(hub.asked)
    assert bring(tmp_path, hub.url)["rows"] == first["rows"]
    assert len(hub.asked) == asked
    hub.shutdown()
    assert bring(tmp_path, "http://127.0.0.1:1")["rows"] == first["rows"]


def test_a_half_download_is_not_used_and_the_next_try_ends_it(hub: Hub, tmp_path: Path) -> None:
    hub.stall = 10_000
    broken = bring(tmp_path, hub.url, stop_after=2)
    assert broken["error"].startswith("Cancelled")
    assert broken["seconds"] < 4
    assert not (tmp_path / ".models" / "acme--tiny").exists()
    hub.stall = 0
    hub.closing.set()
    assert len(bring(tmp_path, hub.url)["rows"]) == 1
    assert [path.name for path in (tmp_path / ".models").iterdir() if path.is_dir()] == ["acme--tiny"]


def test_without_a_connection_the_message_says_how_to_bring_the_model_by_hand(tmp_path: Path) -> None:
    found = bring(tmp_path, "http://127.0.0.1:1", model="intfloat/multilingual-e5-small")
    folder = tmp_path / ".models" / "intfloat--multilingual-e5-small"
    assert found["error"].startswith("Outage")
    for part in ("https://huggingface.co/intfloat/multilingual-e5-small", "model.onnx", "tokenizer.json", str(folder)):
        assert part in found["error"]
    assert not folder.exists()


def test_a_model_that_the_hub_does_not_have_is_not_found(hub: Hub, tmp_path: Path) -> None:
    assert bring(tmp_path, hub.url, model="acme/none")["error"].startswith("ModelNotFound")
    (hub.folder / "tokenizer.json").unlink()
    assert "no model.onnx and tokenizer.json" in bring(tmp_path, hub.url)["error"]


def test_a_search_does_not_wait_for_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOGA_HOME", str(tmp_path))
    with pytest.raises(Outage, match=r"not on this machine yet.*by hand"):
        LocalEmbedder("acme/tiny", policy=SEARCHING).embed(["one"], "query")


# --- reranking ---


@pytest.fixture(scope="module")
def cross(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "cross", classes=1, seed=5)


def score_directly(folder: Path, ids: list[int]) -> float:
    """Return the probability by the logits of [CLS] query [SEP] text [SEP]."""
    logits = run_directly(folder / "model.onnx", ids).astype(np.float64)
    odds = np.exp((logits[:-1] if logits.size > 1 else np.zeros(1)) - logits[-1]).sum()
    return float(1 / (1 + odds))


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_a_score_is_the_probability_of_query_and_text_read_together(classes: int, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "cross", classes=classes, seed=classes)
    texts = ["red green", "blue", "one two three four five", ""]
    found = LocalReranker(str(folder)).rerank("one two", texts)
    ids = [[1, 7, 8, 2, *(WORDS.index(word) for word in text.split()), 2] for text in texts]
    np.testing.assert_allclose(found, [score_directly(folder, one) for one in ids], atol=1e-5)


def test_a_long_text_scores_as_its_best_window(cross: Path) -> None:
    body = [7 + n * n % 10 for n in range(100)]
    (score,) = LocalReranker(str(cross)).rerank("one two", [" ".join(WORDS[i] for i in body)])
    # 64 less the query's 2 and 3 special ones leave 59; overlap 14: two windows of 57
    windows = [score_directly(cross, [1, 7, 8, 2, *body[low : low + 57], 2]) for low in (0, 43)]
    assert score == pytest.approx(max(windows), abs=1e-5)


def test_a_query_longer_than_the_model_leaves_room_for_the_text(cross: Path) -> None:
    scores = LocalReranker(str(cross)).rerank("one two " * 500, ["red green", "blue " * 90])
    assert all(0 <= score <= 1 for score in scores)
    assert LocalReranker(str(cross)).rerank("one two " * 16, ["red"]) == pytest.approx(
        LocalReranker(str(cross)).rerank("one two " * 16 + "three", ["red"])
    )


def test_no_texts_have_no_scores(cross: Path) -> None:
    assert LocalReranker(str(cross)).rerank("one", []) == []


def test_a_reranker_that_is_late_is_an_outage_and_stop_cancels(cross: Path) -> None:
    texts = ["one two three " * 2000] * 20
    late = LocalReranker(str(cross), policy=Policy(deadline=0.01))
    with pytest.raises(Outage, match=r"no answer within 0\.01 s"):
        late.rerank("one", texts)
    with pytest.raises(Cancelled):
        LocalReranker(str(cross), stop=lambda: True).rerank("one", texts)
