"""Tests of the providers: one contract over all embedders, context models and rerankers, against a loopback server.

Each misbehaviour that servers are known for is a case. The key of every test is a canary; whatever a test raises,
logs or prints is searched for it.
"""

import importlib.util
import json
import logging
import math
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seoga import providers
from seoga.config import ConfigError, Contextualizer, Embedding, Rerank, key_variable
from seoga.providers import (
    BadAnswer,
    Cancelled,
    ModelNotFound,
    Outage,
    Policy,
    ProviderError,
    Refused,
    Rejected,
    make_context_model,
    make_embedder,
    make_reranker,
)

_spec = importlib.util.spec_from_file_location("fake_providers", Path(__file__).with_name("fake_providers.py"))
assert _spec
assert _spec.loader
fakes = importlib.util.module_from_spec(_spec)
sys.modules["fake_providers"] = fakes  # its dataclasses look themselves up
_spec.loader.exec_module(fakes)
says, sends, rejects = fakes.says, fakes.sends, fakes.rejects

CANARY = "sk-canary-0123456789abcdef"
EMBEDDERS = {
    "ollama": "bge-m3",
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "gemini-2": "gemini-embedding-2",
    "voyage": "voyage-3.5",
}
CONTEXT_MODELS = {
    "ollama": "qwen3:4b",
    "openai": "gpt-5-mini",
    "groq": "llama-3.3-70b-versatile",
    "gemini": "gemini-2.5-flash",
    "anthropic": "claude-haiku-4-5",
}
PRESETS = {"gemini-2": "Gemini", "ollama": "Ollama"}
QUICK = Policy(deadline=5.0, connect=2.0, tries=3)


class Slept:
    """Stands in for time.sleep, and remembers."""

    def __init__(self) -> None:
        self.naps: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.naps.append(seconds)

    @property
    def total(self) -> float:
        return sum(self.naps)


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    made = fakes.FakeProvider()
    yield made
    made.close()


@pytest.fixture
def fake(server: Any) -> Iterator[Any]:
    server.reset()
    yield server
    server.let_go()


_made: list[Any] = []


def kept(model: Any) -> Any:
    """Have the test close what it made."""
    _made.append(model)
    return model


@pytest.fixture
def slept() -> Slept:
    return Slept()


@pytest.fixture(autouse=True)
def _no_canary(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Search all that a test logs, at the most talkative level, and prints."""
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield
    for thread in threading.enumerate():
        if thread.name == "seoga-request":
            thread.join(5)
    while _made:
        _made.pop().close()
    printed = capfd.readouterr()
    assert CANARY not in caplog.text + printed.out + printed.err


def embedder(fake: Any, provider: str = "openai", *, policy: Policy = QUICK, **settings: Any) -> Any:
    """An embedder that finds its key, and doesn't wait."""
    options = {"sleep": settings.pop("sleep", Slept()), "stop": settings.pop("stop", lambda: False)}
    key = settings.pop("key", CANARY)
    chosen = {
        "provider": provider.removesuffix("-2"),
        "model": EMBEDDERS.get(provider, "m"),
        "base_url": fake.url if fake else "",
        "api_key_preset": PRESETS.get(provider, provider.capitalize()),
        **settings,
    }
    return kept(make_embedder(Embedding(**chosen), key=lambda variable: key, policy=policy, **options))


def context_model(fake: Any, provider: str, **settings: Any) -> Any:
    sleep = settings.pop("sleep", Slept())
    chosen = {
        "provider": provider,
        "model": CONTEXT_MODELS.get(provider, "m"),
        "base_url": fake.url,
        "api_key_preset": provider.capitalize(),
        **settings,
    }
    made = make_context_model(Contextualizer(**chosen), key=lambda variable: CANARY, policy=QUICK, sleep=sleep)
    return kept(made)


def caught(kind: type[ProviderError], act: Callable[[], Any]) -> Any:
    """Run `act`, which must raise exactly `kind`, and search every form of the error for the key."""
    with pytest.raises(ProviderError) as info:
        act()
    assert type(info.value) is kind, repr(info.value)
    clean(info.value)
    return info.value


def clean(error: ProviderError) -> None:
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    forms = [str(error), repr(error), repr(vars(error)), "".join(told.format())]
    assert not any(CANARY in form for form in forms)
    assert error.__cause__ is None
    assert "httpx" not in repr(error.__context__)


def complete(model: Any, **changes: Any) -> str:
    given = {"system": "Situate the chunk.", "document": "The whole manual.", "chunk": "Pump P-101.", **changes}
    return str(model.complete(**given))


def each(model: Any, texts: list[str], **options: Any) -> list[Any]:
    """`embed_each`, a vector or an error for each text."""
    return list(providers.embed_each(model, texts, **options))


def errors(outcomes: list[Any]) -> list[ProviderError]:
    return [outcome for outcome in outcomes if isinstance(outcome, ProviderError)]


# --- the contract of embedders ---


@pytest.mark.parametrize("provider", EMBEDDERS)
def test_each_row_is_its_texts_vector_at_unit_length(fake: Any, provider: str) -> None:
    model = embedder(fake, provider)
    texts = ["회의록", "minutes", "a third, longer text"]
    rows = model.embed(texts, "document")
    assert rows.dtype == np.float32
    assert rows.shape == (3, fakes.DIMENSION)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    sent = fake.requests[0].texts  # with its prefixes, if any
    wanted = np.array([fakes.vector(text) for text in sent])
    assert np.allclose(rows, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    assert [text.endswith(given) for text, given in zip(sent, texts, strict=True)] == [True] * 3
    model.close()
    assert model.embed(["again"], "query").shape == (1, fakes.DIMENSION)
    model.close()


@pytest.mark.parametrize("provider", EMBEDDERS)
def test_a_key_travels_in_a_header_and_nowhere_else(fake: Any, provider: str) -> None:
    fake.key = CANARY
    model = embedder(fake, provider)
    model.embed(["a"], "document")
    request = fake.requests[0]
    assert request.key == CANARY
    assert CANARY not in request.path + request.body.decode()
    assert CANARY not in repr(model) + repr(vars(model)) + repr(vars(model._link)) + model.fingerprint()
    assert sum(CANARY in value for value in request.headers.values()) == 1


@pytest.mark.parametrize("provider", EMBEDDERS)
def test_documents_and_queries_are_told_apart_as_the_model_wants(fake: Any, provider: str) -> None:
    model = embedder(fake, provider)
    model.embed(["text"], "document")
    model.embed(["text"], "query")
    document, query = (request.json for request in fake.requests)
    if provider == "voyage":
        assert (document["input_type"], query["input_type"]) == ("document", "query")
    elif provider == "gemini":
        tasks = [body["requests"][0]["taskType"] for body in (document, query)]
        assert tasks == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"]
    elif provider == "gemini-2":
        texts = [request.texts[0] for request in fake.requests]
        assert texts == ["title: none | text: text", "task: search result | query: text"]
        assert "taskType" not in document["requests"][0]
    else:
        assert document["input"] == query["input"]


@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("nomic-embed-text:latest", "search_document: x", "search_query: x"),
        ("intfloat/multilingual-e5-large", "passage: x", "query: x"),
        (
            "intfloat/multilingual-e5-large-instruct",
            "x",
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: x",
        ),
        ("mxbai-embed-large", "x", "Represent this sentence for searching relevant passages: x"),
        ("embeddinggemma", "title: none | text: x", "task: search result | query: x"),
        ("text-embedding-3-small", "x", "x"),
    ],
)
def test_a_models_own_prefixes_are_put_before_the_text(fake: Any, model: str, document: str, query: str) -> None:
    made = embedder(fake, "ollama", model=model)
    made.embed(["x"], "document")
    made.embed(["x"], "query")
    assert [request.texts for request in fake.requests] == [[document], [query]]


@pytest.mark.parametrize("provider", EMBEDDERS)
def test_a_configured_dimension_is_asked_for_and_checked(fake: Any, provider: str) -> None:
    assert embedder(fake, provider, dimension=4).embed(["a"], "document").shape == (1, 4)
    fake.script.append(fake.changed(lambda vectors: [vector[:3] for vector in vectors]))
    error = caught(BadAnswer, lambda: embedder(fake, provider, dimension=4).embed(["a"], "document"))
    assert "3 or 4" in str(error)


@pytest.mark.parametrize("provider", EMBEDDERS)
def test_a_fingerprint_names_what_decides_the_space_and_not_where_it_is_served(fake: Any, provider: str) -> None:
    one, other = embedder(fake, provider), embedder(fake, provider, base_url="http://localhost:9", batch_size=3)
    assert one.fingerprint() == other.fingerprint()
    assert one.model in one.fingerprint()
    assert "127.0.0.1" not in one.fingerprint()
    assert one.fingerprint() != embedder(fake, provider, dimension=4).fingerprint()


@pytest.mark.parametrize("provider", EMBEDDERS)
def test_usage_counts_calls_tokens_and_the_last_error(fake: Any, provider: str) -> None:
    model = embedder(fake, provider)
    fake.script.append(says(503))
    model.embed(["a"], "document")
    assert (model.usage.calls, model.usage.retries) == (2, 1)
    assert model.usage.input_tokens == (0 if provider.startswith("gemini") else 7)
    assert "503" in model.usage.last_error


def test_ollama_is_told_how_long_to_stay(fake: Any) -> None:
    for keep_alive, sent in [("5m", "5m"), ("-1", -1), ("600", 600)]:
        embedder(fake, "ollama", keep_alive=keep_alive).embed(["a"], "document")
        assert fake.requests[-1].json["keep_alive"] == sent


@pytest.mark.parametrize(("provider", "name"), [("ollama", "truncate"), ("voyage", "truncation")])
def test_a_query_may_be_cut_and_a_document_not(fake: Any, provider: str, name: str) -> None:
    model = embedder(fake, provider)
    model.embed(["a"], "document")
    model.embed(["a"], "query")
    assert [request.json[name] for request in fake.requests] == [False, True]


def test_no_model_is_no_embedder_and_an_unknown_provider_lists_the_known() -> None:
    assert make_embedder(Embedding(provider="openai")) is None
    assert make_context_model(Contextualizer()) is None
    assert make_reranker(Rerank()) is None
    with pytest.raises(ConfigError, match=r"'hal'; it must be one of gemini, .*ollama, openai, voyage"):
        make_embedder(Embedding(provider="hal", model="m"))
    with pytest.raises(ConfigError, match="anthropic, gemini, groq"):
        make_context_model(Contextualizer(provider="voyage", model="m"))
    made = make_context_model(Contextualizer(provider="Claude", model="m"))
    assert made
    assert made.provider == "anthropic"


def test_importing_costs_neither_httpx_nor_numpy() -> None:
    check = (
        "import sys; from seoga.config import Embedding; from seoga.providers import make_embedder;"
        "make_embedder(Embedding(provider='openai', model='m')).fingerprint();"
        "print([name for name in ('httpx', 'numpy', 'ssl') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-P", "-c", check], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- addresses ---


@pytest.mark.parametrize(
    ("provider", "base", "path"),
    [
        ("openai", "", "/v1/embeddings"),
        ("openai", "/", "/v1/embeddings"),
        ("openai", "/v1", "/v1/embeddings"),
        ("openai", "/v1/", "/v1/embeddings"),
        ("openai", "/v1/embeddings", "/v1/embeddings"),
        ("openai", "/v1/chat/completions", "/v1/embeddings"),
        ("openai", "/team/a", "/team/a/v1/embeddings"),
        ("openai", "/team/a/v1/?zone=2", "/team/a/v1/embeddings?zone=2"),
        ("openai", "/v1beta/openai", "/v1beta/openai/embeddings"),
        (
            "openai",
            "/openai/deployments/mine?api-version=2024-10-21",
            "/openai/deployments/mine/embeddings?api-version=2024-10-21",
        ),
        (
            "openai",
            "/openai/deployments/mine/embeddings?api-version=2024-10-21",
            "/openai/deployments/mine/embeddings?api-version=2024-10-21",
        ),
        (
            "openai",
            "?api-version=2024-10-21",
            "/openai/deployments/text-embedding-3-small/embeddings?api-version=2024-10-21",
        ),
        ("ollama", "", "/api/embed"),
        ("ollama", "/api/", "/api/embed"),
        ("ollama", "/api/embed", "/api/embed"),
        ("ollama", "/v1", "/api/embed"),
        ("ollama", "/behind/a/proxy", "/behind/a/proxy/api/embed"),
        ("gemini", "", "/v1beta/models/gemini-embedding-001:batchEmbedContents"),
        ("gemini", "/v1beta/models", "/v1beta/models/gemini-embedding-001:batchEmbedContents"),
        ("voyage", "/v1/rerank", "/v1/embeddings"),
    ],
)
def test_any_form_of_base_url_leads_to_the_endpoint(fake: Any, provider: str, base: str, path: str) -> None:
    embedder(fake, provider, base_url=fake.url + base).embed(["a"], "document")
    assert fake.requests[0].path == path


def test_azure_gets_its_key_in_its_own_header(fake: Any) -> None:
    embedder(fake, base_url=f"{fake.url}/openai/deployments/d?api-version=1").embed(["a"], "document")
    assert fake.requests[0].headers["api-key"] == CANARY
    assert "authorization" not in fake.requests[0].headers


def test_a_base_url_without_a_scheme_works_and_a_broken_one_is_named(fake: Any) -> None:
    embedder(fake, base_url=fake.url.removeprefix("http://")).embed(["a"], "document")
    for base in ("ftp://x", "http://", "http://[::1", "http://u:secret@:1/"):
        with pytest.raises(ConfigError, match="baseUrl") as info:
            embedder(fake, base_url=base)
        assert "secret" not in str(info.value)


# --- keys ---


@pytest.mark.parametrize("provider", ["openai", "gemini", "voyage"])
def test_a_missing_key_is_named_at_first_use(provider: str) -> None:
    model = embedder(None, provider, key=None, api_key_preset="")
    error = caught(Refused, lambda: model.embed(["a"], "document"))
    assert key_variable(provider) in str(error)
    assert model.usage.calls == 0
    assert all(isinstance(outcome, Refused) for outcome in each(model, ["a", "b"]))


def test_a_key_goes_to_another_host_only_where_the_settings_say_so(fake: Any) -> None:
    embedder(fake, api_key_preset="").embed(["a"], "document")
    assert fake.requests[0].key == ""
    fake.key = CANARY
    error = caught(Refused, lambda: embedder(fake, api_key_preset="").embed(["a"], "document"))
    assert "apiKeyPreset" in str(error)


def test_a_server_on_this_machine_is_asked_without_a_key_before_one_is_demanded(fake: Any) -> None:
    embedder(fake, key=None, api_key_preset="LMStudio").embed(["a"], "document")
    fake.key = CANARY
    error = caught(Refused, lambda: embedder(fake, key=None, api_key_preset="LMStudio").embed(["a"], "document"))
    assert "LMSTUDIO_API_KEY" in str(error)
    remote = embedder(None, key=None, api_key_preset="Together", base_url="https://api.together.invalid")
    assert "TOGETHER_API_KEY" in str(caught(Refused, lambda: remote.embed(["a"], "document")))
    assert remote.usage.calls == 0


@pytest.mark.parametrize("provider", [*EMBEDDERS])
def test_a_wrong_key_stops_at_once_and_names_the_variable(fake: Any, provider: str) -> None:
    fake.key = "another"
    model = embedder(fake, provider)
    error = caught(Refused, lambda: model.embed(["a"], "document"))
    assert error.status == 401
    assert "Incorrect API key provided: ***" in str(error)  # the server had said it
    assert CANARY not in model.usage.last_error
    assert key_variable(PRESETS.get(provider, provider)) in str(error)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("key", ["sk-canary\n-0123", "sk-canary-열쇠"])
def test_a_key_that_no_header_can_hold_is_not_sent_and_not_shown(fake: Any, key: str) -> None:
    error = caught(Refused, lambda: embedder(fake, key=key).embed(["a"], "document"))
    assert "OPENAI_API_KEY" in str(error)
    assert "canary" not in str(error)
    assert not fake.requests


def test_white_space_around_a_key_is_dropped(fake: Any) -> None:
    fake.key = CANARY
    embedder(fake, key=f" {CANARY}\n").embed(["a"], "document")


def test_a_redirect_is_an_error_and_takes_no_key_along(fake: Any) -> None:
    other = fakes.FakeProvider()
    fake.always = lambda request: fakes.Answer(307, b"", {"location": f"{other.url}/v1/embeddings?key={CANARY}"})
    error = caught(Refused, lambda: embedder(fake).embed(["a"], "document"))
    other.close()
    assert "redirect" in str(error)
    assert other.url in str(error)
    assert not other.requests
    assert len(fake.requests) == 1


# --- what a server may do wrong ---

KINDS = [
    (400, Rejected, 1),
    (401, Refused, 1),
    (402, Refused, 1),
    (403, Refused, 1),
    (404, ModelNotFound, 1),
    (405, ModelNotFound, 1),
    (408, Outage, 3),
    (413, Rejected, 1),
    (422, Rejected, 1),
    (429, Outage, 3),
    (500, Outage, 3),
    (502, Outage, 3),
    (503, Outage, 3),
    (529, Outage, 3),
]


@pytest.mark.parametrize(("status", "kind", "calls"), KINDS)
@pytest.mark.parametrize("provider", ["ollama", "openai", "gemini", "voyage"])
def test_a_status_decides_what_can_be_done(
    fake: Any, provider: str, status: int, kind: type[ProviderError], calls: int
) -> None:
    fake.always = says(status, f"because of {CANARY}")
    error = caught(kind, lambda: embedder(fake, provider).embed(["a"], "document"))
    assert error.status == status
    assert error.provider == provider
    assert error.model == EMBEDDERS[provider]
    assert len(fake.requests) == calls
    if kind is ModelNotFound:
        assert error.model in str(error)
        assert fake.url in str(error)


WORDS = [
    (500, {"error": "failed to encode response: json: unsupported value: NaN"}, Rejected),  # Ollama
    (400, {"error": "the input length exceeds the context length"}, Rejected),  # Ollama
    (500, {"error": {"message": "input is too large to process. increase the physical batch size"}}, Rejected),
    (200, {"error": "Trying to keep the first 9000 tokens when context length is 2048"}, Rejected),  # LM Studio
    (200, {"error": "No models loaded. Please load a model in the developer page"}, ModelNotFound),  # LM Studio
    (200, {"error": {"message": "the runner has crashed"}}, Outage),
    (400, {"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}, Refused),  # Gemini
    (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, Refused),  # OpenAI
    (429, {"error": {"message": "Request too large for model on tokens per min (TPM)"}}, Rejected),  # OpenAI
    (400, [{"error": {"message": "at most 100 requests can be in one batch"}}], Rejected),  # Gemini
    (422, {"detail": [{"loc": ["body", "input"], "msg": "String too long"}]}, Rejected),  # vLLM, TEI
]


@pytest.mark.parametrize(("status", "body", "kind"), WORDS)
def test_where_a_status_misleads_the_words_decide(fake: Any, status: int, body: Any, kind: type[ProviderError]) -> None:
    fake.always = sends(body, status)
    caught(kind, lambda: embedder(fake, "openai").embed(["a"], "document"))


NAN = float("nan")
BAD_VECTORS: dict[str, Callable[[list[Any]], Any]] = {
    "fewer": lambda vectors: vectors[:-1],
    "more": lambda vectors: [*vectors, vectors[0]],
    "none": lambda vectors: [],
    "one empty": lambda vectors: [[], *vectors[1:]],
    "null": lambda vectors: [None, *vectors[1:]],
    "a null inside": lambda vectors: [[None, *vectors[0][1:]], *vectors[1:]],
    "strings": lambda vectors: [list(map(str, vector)) for vector in vectors],
    "true and false": lambda vectors: [[True] * len(vector) for vector in vectors],
    "base64": lambda vectors: ["AAAAAA=="] * len(vectors),
    "nested": lambda vectors: [[vector] for vector in vectors],
    "NaN": lambda vectors: [[NAN, *vectors[0][1:]], *vectors[1:]],
    "infinity": lambda vectors: [[math.inf, *vectors[0][1:]], *vectors[1:]],
    "beyond float": lambda vectors: [[10**400, *vectors[0][1:]], *vectors[1:]],
    "zeros": lambda vectors: [[0.0] * len(vectors[0]), *vectors[1:]],
    "mixed dimensions": lambda vectors: [vectors[0][:-1], *vectors[1:]],
}


@pytest.mark.parametrize("change", BAD_VECTORS.values(), ids=BAD_VECTORS)
@pytest.mark.parametrize("provider", ["ollama", "openai", "gemini", "voyage"])
def test_nothing_of_a_bad_answer_is_used(fake: Any, provider: str, change: Callable[[list[Any]], Any]) -> None:
    fake.script.append(fake.changed(change))
    model = embedder(fake, provider)
    caught(BadAnswer, lambda: model.embed(["a", "b", "c"], "document"))
    assert len(fake.requests) == 1
    assert model.embed(["a"], "document").shape == (1, fakes.DIMENSION)  # and nothing of it is remembered


@pytest.mark.parametrize("provider", ["ollama", "openai", "gemini", "voyage"])
def test_another_dimension_than_before_is_a_bad_answer(fake: Any, provider: str) -> None:
    model = embedder(fake, provider)
    model.embed(["a"], "document")
    fake.dimension = 6
    assert "6 or 8" in str(caught(BadAnswer, lambda: model.embed(["b"], "document")))


@pytest.mark.parametrize("provider", ["openai", "voyage"])
def test_shuffled_items_are_put_in_the_order_of_their_indexes(fake: Any, provider: str) -> None:
    straight = embedder(fake, provider).embed(["a", "b", "c"], "document")
    fake.script.append(fake.indexes(lambda order: [2, 0, 1]))
    assert np.array_equal(embedder(fake, provider).embed(["a", "b", "c"], "document"), straight)


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1, 3], ["0", "1", "2"], [0, None, 2], [0, True, 2], [0.0, 1, 2]])
def test_indexes_that_name_no_order_are_a_bad_answer(fake: Any, order: list[Any]) -> None:
    fake.script.append(fake.indexes(lambda _: order))
    caught(BadAnswer, lambda: embedder(fake).embed(["a", "b", "c"], "document"))


def test_items_without_any_index_are_taken_in_order(fake: Any) -> None:
    straight = embedder(fake).embed(["a", "b"], "document")
    fake.script.append(
        lambda request: sends({"data": [{"embedding": fakes.vector(t)} for t in request.texts]})(request)
    )
    assert np.array_equal(embedder(fake).embed(["a", "b"], "document"), straight)


BROKEN = {
    "html": sends(b"<html><body>Please log in</body></html>"),
    "truncated json": sends(b'{"data": [{"embedding": [0.1, 0'),
    "nothing": sends(b""),
    "deep json": sends(b"[" * 100_000),
    "reset": fakes.resets,
    "truncated body": fakes.truncates,
}


@pytest.mark.parametrize("entry", BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_an_outage_and_is_asked_for_again(fake: Any, entry: Any) -> None:
    fake.always = entry
    caught(Outage, lambda: embedder(fake).embed(["a"], "document"))
    assert len(fake.requests) == 3
    fake.always = None
    fake.script.append(entry)
    embedder(fake).embed(["a"], "document")


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'"text"', b"{}", b'{"data": {"a": 1}}', b'{"data": [1]}'])
def test_json_of_another_shape_is_a_bad_answer(fake: Any, body: bytes) -> None:
    fake.always = sends(body)
    for model in [embedder(fake, provider) for provider in EMBEDDERS]:
        caught(BadAnswer, partial(model.embed, ["a"], "document"))


UNREACHABLE = {
    "refused": lambda: f"http://127.0.0.1:{fakes.free_port()}",
    "no such name": lambda: "http://nowhere.invalid",
}


@pytest.mark.parametrize("base", UNREACHABLE.values(), ids=UNREACHABLE)
def test_a_server_that_is_not_there_is_an_outage(base: Callable[[], str]) -> None:
    model = embedder(None, base_url=base())
    caught(Outage, lambda: model.embed(["a"], "document"))
    assert model.usage.calls == 3


def test_a_server_without_tls_where_it_is_due_is_an_outage(fake: Any) -> None:
    caught(Outage, lambda: embedder(fake, base_url=fake.url.replace("http", "https")).embed(["a"], "document"))


@pytest.mark.parametrize("where", ["headers", "body"])
def test_a_trickle_is_cut_off_at_the_deadline(fake: Any, where: str) -> None:
    fake.always = fakes.trickles(where)
    model = embedder(fake, policy=Policy(deadline=0.6, tries=1))
    began = time.monotonic()
    assert "within 0.6 s" in str(caught(Outage, lambda: model.embed(["a"], "document")))
    assert time.monotonic() - began < 1.5


@pytest.mark.parametrize("named", [True, False])
def test_a_body_of_a_gigabyte_is_not_taken(fake: Any, named: bool, slept: Slept) -> None:
    fake.always = fakes.streams(1024**3, named=named)
    error = caught(BadAnswer, lambda: embedder(fake, sleep=slept).embed(["a"], "document"))
    assert "64 MB" in str(error)
    assert len(fake.requests) == 1


def test_an_answer_too_large_for_one_is_asked_for_by_halves(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "MAX_ANSWER_BYTES", 2000)
    assert not errors(each(embedder(fake), [f"text {n}" for n in range(32)]))


def test_no_texts_are_no_vectors_and_no_request(fake: Any) -> None:
    assert embedder(fake, dimension=4).embed([], "document").shape == (0, 4)
    assert not fake.requests


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{fakes.free_port()}")
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{fakes.free_port()}")
    embedder(fake).embed(["a"], "document")


@pytest.mark.parametrize(("proxy", "kind"), [("socks5://me:secret@127.0.0.1:1", Refused), ("nonsense://x", Outage)])
def test_a_proxy_that_can_not_be_used_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, proxy: str, kind: type[ProviderError]
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", proxy)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    error = caught(kind, lambda: embedder(None).embed(["a"], "document"))
    assert "secret" not in str(error)


# --- waiting ---


def test_waits_double_are_shaken_and_end(fake: Any, slept: Slept) -> None:
    fake.always = says(503)
    caught(Outage, lambda: embedder(fake, sleep=slept, policy=Policy(tries=4)).embed(["a"], "document"))
    assert len(fake.requests) == 4
    assert 0.5 + 1 + 2 <= slept.total <= 1 + 2 + 4
    assert max(slept.naps) <= providers.TICK_SECONDS


def test_retry_after_is_honoured_in_seconds_and_as_a_date(fake: Any, slept: Slept) -> None:
    fake.script.append(says(429, retry_after="7"))
    embedder(fake, sleep=slept).embed(["a"], "document")
    assert slept.total == pytest.approx(7)
    slept.naps.clear()
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    fake.script.append(says(503, retry_after=later))
    embedder(fake, sleep=slept).embed(["a"], "document")
    assert 17 < slept.total <= 20


def test_geminis_own_way_of_asking_for_a_pause_is_honoured(fake: Any, slept: Slept) -> None:
    fake.script.append(sends({"error": {"message": "quota", "details": [{"retryDelay": "31s"}]}}, 429))
    embedder(fake, "gemini", sleep=slept).embed(["a"], "document")
    assert slept.total == pytest.approx(31)


@pytest.mark.parametrize("asked", ["86400", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_a_server_that_asks_for_more_than_a_minute_is_left_for_another_run(fake: Any, slept: Slept, asked: str) -> None:
    fake.always = says(429, retry_after=asked)
    caught(Outage, lambda: embedder(fake, sleep=slept).embed(["a"], "document"))
    assert (len(fake.requests), slept.naps) == (1, [])


@pytest.mark.parametrize("asked", ["soon", "-5", "", "Wed, 21 Oct 2015 07:28:00 GMT", "１２", "1e9", "0"])
def test_a_retry_after_that_makes_no_sense_does_no_harm(fake: Any, slept: Slept, asked: str) -> None:
    fake.script.append(says(503, retry_after=asked.encode().decode("latin-1")))
    embedder(fake, sleep=slept).embed(["a"], "document")
    assert 0.5 <= slept.total <= 1


def test_a_stop_ends_a_wait(fake: Any, slept: Slept) -> None:
    fake.always = says(503, retry_after="50")
    model = embedder(fake, sleep=slept, stop=lambda: len(slept.naps) >= 3)
    caught(Cancelled, lambda: model.embed(["a"], "document"))
    assert (len(fake.requests), len(slept.naps)) == (1, 3)


def test_a_stop_that_was_there_before_sends_nothing(fake: Any) -> None:
    caught(Cancelled, lambda: embedder(fake, stop=lambda: True).embed(["a"], "document"))
    assert not fake.requests


def test_a_stop_ends_a_request_that_hangs_within_two_seconds(fake: Any) -> None:
    fake.always = fakes.hangs
    stopped = threading.Event()
    threading.Timer(0.3, stopped.set).start()
    model = embedder(fake, stop=stopped.is_set, policy=Policy())
    began = time.monotonic()
    outcomes = each(model, ["a", "b"], stop=stopped.is_set)
    assert time.monotonic() - began < 1.5
    assert [type(outcome) for outcome in outcomes] == [Cancelled, Cancelled]


# --- many texts ---


def test_each_text_gets_its_own_vector_and_equal_texts_are_asked_once(fake: Any) -> None:
    texts = ["a", "b", "a", "c", "b"]
    outcomes = each(embedder(fake, batch_size=2), texts)
    single = {text: embedder(fake).embed([text], "document")[0] for text in set(texts)}
    assert all(np.array_equal(outcome, single[text]) for outcome, text in zip(outcomes, texts, strict=True))
    assert [request.texts for request in fake.requests[:2]] == [["a", "b"], ["c"]]


@pytest.mark.parametrize("place", [0, 377, 999])
@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_one_poisoned_text_of_a_thousand_fails_alone(fake: Any, provider: str, place: int) -> None:
    texts = [f"text {n}" for n in range(1000)]
    texts[place] = "a poisoned text that no server takes, at whatever length POISON " * 4
    fake.always = rejects(lambda text: "POISON" in text)
    model = embedder(fake, provider, batch_size=1000)
    outcomes = each(model, texts)
    assert [type(error) for error in errors(outcomes)] == [Rejected]
    assert isinstance(outcomes[place], Rejected)
    assert len(fake.requests) - 1 <= 2 * math.log2(1000) + 4
    assert len(set(fake.bodies)) == len(fake.bodies)
    right = embedder(fake, provider).embed([texts[500]], "document")[0]
    assert np.array_equal(outcomes[500], right)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_batch_that_is_too_large_is_halved_until_it_fits(fake: Any, status: int) -> None:
    refuse = says(status, "too many inputs")
    fake.always = lambda request: refuse(request) if len(request.texts) > 16 else None
    outcomes = each(embedder(fake, batch_size=100), [f"text {n}" for n in range(100)])
    assert not errors(outcomes)
    assert len(set(fake.bodies)) == len(fake.bodies) == 15


def test_a_text_that_is_too_long_is_embedded_whole_in_parts(fake: Any) -> None:
    refuse = says(400, "maximum context length is 100 tokens")
    fake.always = lambda request: refuse(request) if any(len(text) > 300 for text in request.texts) else None
    model = embedder(fake, batch_size=4)
    long = "".join(chr(0xAC00 + n) for n in range(1000))
    outcomes = each(model, ["short", long, "b", "c"])
    assert not errors(outcomes)
    assert model.usage.windowed == 1
    assert np.linalg.norm(outcomes[1]) == pytest.approx(1, abs=1e-6)
    assert "".join(next(request.texts for request in fake.requests if request.texts[0] == long[:250])) == long
    parts = embedder(fake).embed([long[n : n + 250] for n in range(0, 1000, 250)], "document").mean(axis=0)
    assert np.allclose(outcomes[1], parts / np.linalg.norm(parts), atol=1e-6)
    assert len(set(fake.bodies[:-1])) == len(fake.bodies) - 1


def test_parts_respect_a_batch_size_of_one(fake: Any) -> None:
    refuse = says(400)
    fake.always = lambda request: refuse(request) if len(request.texts) > 1 or len(request.texts[0]) > 60 else None
    outcomes = each(embedder(fake, batch_size=1), ["x" * 50 + "y" * 50])
    assert not errors(outcomes)


def test_a_server_that_rejects_everything_is_refused_and_no_text_is_blamed(fake: Any) -> None:
    fake.always = says(400, "this model does not support embeddings")
    model = embedder(fake, batch_size=32)
    outcomes = each(model, [f"text {n}" for n in range(1000)])
    assert {type(outcome) for outcome in outcomes} == {Refused}
    assert len(fake.requests) <= 8
    assert len(set(fake.bodies)) == len(fake.bodies)


def test_an_outage_marks_its_batch_and_two_in_a_row_leave_the_rest(fake: Any) -> None:
    texts = [f"text {n}" for n in range(40)]
    down = says(503)
    fake.always = lambda request: down(request) if "text 10" in request.texts else None
    outcomes = each(embedder(fake, batch_size=10), texts)
    assert [type(outcome) is Outage for outcome in outcomes] == [10 <= n < 20 for n in range(40)]
    fake.requests.clear()
    fake.always = down
    outcomes = each(embedder(fake, batch_size=10), texts)
    assert {type(outcome) for outcome in outcomes} == {Outage}
    assert len(fake.requests) == 2 * 3


@pytest.mark.parametrize(("status", "kind"), [(401, Refused), (403, Refused), (404, ModelNotFound)])
def test_what_the_whole_run_shares_is_asked_once(fake: Any, status: int, kind: type[ProviderError]) -> None:
    ok = [lambda request: None]
    fake.script.extend([*ok, says(status)])
    outcomes = each(embedder(fake, batch_size=10), [f"text {n}" for n in range(50)])
    assert len(errors(outcomes)) == 40
    assert {type(error) for error in errors(outcomes)} == {kind}
    assert len(fake.requests) == 2


@pytest.mark.parametrize("change", [BAD_VECTORS["none"], BAD_VECTORS["zeros"], BAD_VECTORS["NaN"]])
@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_one_text_that_gets_a_bad_answer_takes_no_other_along(
    fake: Any, provider: str, change: Callable[[list[Any]], Any]
) -> None:
    spoil = fake.changed(change)
    fake.always = lambda request: spoil(request) if "POISON" in request.texts else None
    texts = [f"text {n}" for n in range(32)]
    texts[13] = "POISON"
    outcomes = each(embedder(fake, provider), texts)
    assert [type(outcome) is BadAnswer for outcome in outcomes] == [n == 13 for n in range(32)]


def test_bad_answers_for_a_whole_run_end_soon(fake: Any) -> None:
    fake.always = fake.changed(BAD_VECTORS["fewer"])
    outcomes = each(embedder(fake), [f"text {n}" for n in range(500)])
    assert {type(outcome) for outcome in outcomes} == {BadAnswer}
    assert len(fake.requests) == 2


def test_one_text_on_which_a_server_breaks_takes_no_other_along(fake: Any) -> None:
    crash = says(500, "llama runner process no longer running")
    fake.always = lambda request: crash(request) if "POISON" in request.texts else None
    outcomes = each(embedder(fake), [*(f"text {n}" for n in range(15)), "POISON"])
    assert [type(outcome) is Outage for outcome in outcomes] == [n == 15 for n in range(16)]


def test_empty_texts_are_not_sent(fake: Any) -> None:
    outcomes = each(embedder(fake), ["", "a", " \n"])
    assert [type(outcome) is Rejected for outcome in outcomes] == [True, False, True]
    assert fake.requests[0].texts == ["a"]
    assert each(embedder(fake), []) == []


def test_providers_own_limits_hold_whatever_the_batch_size(fake: Any) -> None:
    each(embedder(fake, "gemini", batch_size=500), [f"text {n}" for n in range(250)])
    assert [len(request.texts) for request in fake.requests] == [100, 100, 50]
    fake.requests.clear()
    each(embedder(fake, "voyage", batch_size=500), [f"{n:03}" + "가" * 997 for n in range(300)])
    assert max(len("".join(request.texts)) for request in fake.requests) <= 120_000
    assert len(fake.requests) == 3
    assert embedder(fake, "openai", batch_size=9999).batch_size == 2048
    assert embedder(fake, "voyage", batch_size=9999).batch_size == 1000


def test_a_stop_between_batches_leaves_the_rest(fake: Any) -> None:
    outcomes = each(
        embedder(fake, batch_size=10), [f"text {n}" for n in range(50)], stop=lambda: len(fake.requests) >= 2
    )
    assert [type(outcome) is Cancelled for outcome in outcomes] == [n >= 20 for n in range(50)]


def test_errors_of_many_texts_hold_no_key(fake: Any) -> None:
    fake.always = says(400, f"you sent {CANARY}")
    for outcome in each(embedder(fake), ["a" * 100, "b"]):
        clean(outcome)


# --- parameters that not every server knows ---


def test_dimensions_are_left_out_for_a_model_that_takes_none(fake: Any) -> None:
    refuse = says(400, "This model does not support specifying dimensions.")
    fake.always = lambda request: refuse(request) if "dimensions" in request.json else None
    model = embedder(fake, dimension=fakes.DIMENSION)
    for text in "abc":
        model.embed([text], "document")
    assert ["dimensions" in request.json for request in fake.requests] == [True, False, False, False]


def test_a_rejection_that_only_speaks_of_dimensions_changes_nothing(fake: Any) -> None:
    fake.script.extend([says(400, "any array must be 2048 dimensions or less")] * 2)
    model = embedder(fake, dimension=4)
    caught(Rejected, lambda: model.embed(["a"], "document"))
    assert model.embed(["b"], "document").shape == (1, 4)


@pytest.mark.parametrize(("age", "known"), [("newer", "max_completion_tokens"), ("older", "max_tokens")])
def test_the_name_of_the_answers_limit_is_learned_once(fake: Any, age: str, known: str) -> None:
    def entry(request: Any) -> Any:
        wrong = {"max_tokens", "max_completion_tokens"} & set(request.json) - {known}
        return says(400, f"Unsupported parameter: {wrong.pop()!r}")(request) if wrong else None

    fake.always = entry
    model = context_model(fake, "openai")
    for n in range(3):
        complete(model, chunk=str(n))
    assert all(request.json[known] == 400 for request in fake.requests[-3:])
    assert len(fake.requests) == (4 if age == "newer" else 3)
    assert len(set(fake.bodies)) == len(fake.bodies)


# --- the contract of context models ---


@pytest.mark.parametrize("provider", CONTEXT_MODELS)
def test_a_context_model_answers_and_the_document_comes_first(fake: Any, provider: str) -> None:
    fake.key = CANARY
    model = context_model(fake, provider)
    assert complete(model) == fake.text
    request = fake.requests[0]
    body = request.body.decode()
    assert body.index("The whole manual.") < body.index("Pump P-101.")
    assert "Situate the chunk." in body
    assert request.key == CANARY
    assert CANARY not in body + request.path
    usage = model.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 11, 3)
    assert usage.cached_tokens == (0 if provider == "ollama" else 5)


@pytest.mark.parametrize("provider", CONTEXT_MODELS)
def test_two_chunks_of_a_document_share_all_that_comes_before_them(fake: Any, provider: str) -> None:
    model = context_model(fake, provider)
    complete(model, chunk="ONE", document="D" * 5000)
    complete(model, chunk="TWO", document="D" * 5000)
    one, two = fake.bodies
    assert one.split(b"ONE")[0] == two.split(b"TWO")[0]
    assert b"D" * 5000 in one.split(b"ONE")[0]


def test_each_wire_carries_what_its_documentation_says(fake: Any) -> None:
    complete(context_model(fake, "anthropic"))
    sent = fake.requests[-1]
    assert (sent.path, sent.headers["anthropic-version"]) == ("/v1/messages", "2023-06-01")
    document, chunk = sent.json["messages"][0]["content"]
    assert document["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in chunk
    assert (sent.json["system"], sent.json["max_tokens"]) == ("Situate the chunk.", 400)

    complete(context_model(fake, "ollama", num_ctx=8192, keep_alive="-1"))
    sent = fake.requests[-1]
    assert (sent.path, sent.json["stream"], sent.json["keep_alive"]) == ("/api/chat", False, -1)
    assert sent.json["options"] == {"num_predict": 400, "num_ctx": 8192}

    complete(context_model(fake, "gemini"))
    sent = fake.requests[-1]
    assert sent.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert sent.json["generationConfig"] == {"maxOutputTokens": 400}
    assert [part["text"] for part in sent.json["contents"][0]["parts"]] == ["The whole manual.", "Pump P-101."]

    complete(context_model(fake, "groq", base_url=f"{fake.url}/openai/v1"))
    assert fake.requests[-1].path == "/openai/v1/chat/completions"


def test_default_addresses_are_the_providers_own() -> None:
    for provider, service in providers._SERVICES.items():
        made = providers._Link(Contextualizer(provider=provider, model="m"), provider, {})
        assert made._base == service.base
        assert made.is_own_host
    assert providers._address(providers._SERVICES["groq"], "https://api.groq.com/openai", "chat/completions") == (
        "https://api.groq.com/openai/v1/chat/completions"
    )


@pytest.mark.parametrize("provider", CONTEXT_MODELS)
def test_a_model_that_spends_its_answer_on_thinking_gets_more_room(fake: Any, provider: str) -> None:
    fake.script.append(fake.cut)
    model = context_model(fake, provider)
    assert complete(model) == fake.text
    complete(model)
    assert len(fake.requests) == 3
    limits = [str(400 + providers.THINKING_TOKENS) in body.decode() for body in fake.bodies]
    assert limits == [False, True, True]
    fake.always = fake.cut
    assert "thinking" in str(caught(BadAnswer, lambda: complete(model)))


@pytest.mark.parametrize("provider", CONTEXT_MODELS)
def test_an_answer_without_text_is_a_bad_answer(fake: Any, provider: str) -> None:
    model = context_model(fake, provider)
    for body in (b"{}", b"[]", b"null", b'{"choices": [], "candidates": [], "content": null, "message": 3}'):
        fake.always = sends(body)
        caught(BadAnswer, lambda: complete(model))
    fake.always = None
    fake.text = "<think>hm</think> \n"
    caught(BadAnswer, lambda: complete(model))
    fake.text = "<think>hm\nhm</think>\nContext\ud800: pumps"
    assert complete(model) == "Context\ufffd: pumps"


@pytest.mark.parametrize(("status", "kind", "calls"), KINDS)
@pytest.mark.parametrize("provider", CONTEXT_MODELS)
def test_a_context_models_errors_are_of_the_same_kinds(
    fake: Any, provider: str, status: int, kind: type[ProviderError], calls: int
) -> None:
    fake.always = says(status, f"because of {CANARY}")
    error = caught(kind, lambda: complete(context_model(fake, provider)))
    assert error.status == status
    assert len(fake.requests) == calls


def test_a_model_that_will_not_write_about_a_text_rejects_it(fake: Any) -> None:
    fake.script.append(sends({"promptFeedback": {"blockReason": "SAFETY"}}))
    caught(Rejected, lambda: complete(context_model(fake, "gemini")))
    fake.script.append(sends({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}))
    caught(Rejected, lambda: complete(context_model(fake, "openai")))
    body = {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."}}
    fake.script.append(sends(body, 400))
    caught(Refused, lambda: complete(context_model(fake, "anthropic")))


def test_several_threads_share_one_context_model(fake: Any) -> None:
    model = context_model(fake, "openai")
    threads = [threading.Thread(target=complete, args=(model,), kwargs={"chunk": str(n)}) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (model.usage.calls, model.usage.input_tokens) == (16, 16 * 11)


# --- reranking ---


@pytest.mark.parametrize(("provider", "path"), [("voyage", "/v1/rerank"), ("cohere", "/v2/rerank")])
def test_scores_come_in_the_order_of_the_texts(fake: Any, provider: str, path: str) -> None:
    fake.key = CANARY
    settings = Rerank(provider=provider, model="m", base_url=fake.url, api_key_preset=provider)
    reranker = kept(make_reranker(settings, key=lambda variable: CANARY))
    assert reranker.rerank("query", ["a", "a longer text", "abc"]) == [0.01, 0.13, 0.03]
    assert fake.requests[0].path == path
    assert reranker.rerank("query", []) == []
    for entry in (
        sends({"data": [{"index": 0, "relevance_score": 1}], "results": []}),
        sends({"results": [{"index": n, "relevance_score": "1"} for n in range(3)]}),
        sends({"results": [{"index": n, "relevance_score": NAN} for n in range(3)]}),
        sends({"results": [{"index": 0, "relevance_score": 1}] * 3}),
        sends({"results": [{"index": n} for n in range(3)]}),
        sends([]),
    ):
        fake.always = entry
        caught(BadAnswer, lambda: reranker.rerank("query", ["a", "b", "c"]))


@pytest.mark.parametrize(
    ("base", "path"), [("/rerank", "/v2/rerank"), ("/v1", "/v1/rerank"), ("/jina/v1/rerank", "/jina/v1/rerank")]
)
def test_a_reranker_may_be_anywhere(fake: Any, base: str, path: str) -> None:
    reranker = kept(make_reranker(Rerank(provider="cohere", model="m", base_url=fake.url + base)))
    reranker.rerank("q", ["a"])
    assert fake.requests[0].path == path


def test_a_search_does_not_wait_long_for_a_reranker(fake: Any, slept: Slept) -> None:
    fake.always = says(503, retry_after="30")
    reranker = kept(make_reranker(Rerank(provider="cohere", model="m", base_url=fake.url), sleep=slept))
    caught(Outage, lambda: reranker.rerank("q", ["a"]))
    assert slept.total <= providers.SEARCHING.longest_wait


def test_what_is_sent_is_json_that_any_server_reads(fake: Any) -> None:
    hostile = ["한글 \U0001f600", 'quote " and \\', "nul \x00", "lone \ud800 surrogate", "\u2028"]
    embedder(fake).embed(hostile, "document")
    sent = json.loads(fake.bodies[0].decode())["input"]
    assert sent[:3] == hostile[:3]
    assert sent[3] == "lone ? surrogate"
