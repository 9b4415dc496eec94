"""Ask a model server, near or far, for vectors, short texts or scores, under one policy for whatever goes wrong.

    make_embedder(settings)      -> Embedder      texts to unit vectors      ollama openai gemini voyage, local
    make_context_model(settings) -> ContextModel  prompt to text             ollama openai groq gemini anthropic
    make_reranker(settings)      -> Reranker      query and texts to scores  voyage cohere, local
    embed_each(embedder, texts)  -> a vector or an error for each text, the bad ones isolated

`_Link` holds the policy: a deadline for the whole request, bounded retries, one class of error for each thing a caller
can do about it. A key travels in a header, to the host it is meant for, and appears in no message. Every answer is
checked before any of it is used. This file does not store vectors, write prompts or read answers' meaning.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlsplit, urlunsplit

from .config import VERSION, ConfigError, Contextualizer, Embedding, Rerank, SeogaError, key_variable, scrub

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray

MAX_ANSWER_BYTES = (
    64 * 1024 * 1024
)  # 64 MB: about 1,200 vectors of 3,072 numbers; more than that is asked for again by halves
TICK_SECONDS = 0.2  # between two looks at `stop`
DETAIL_CHARS = 300  # of a provider's own words in a message
THINKING_TOKENS = 4096  # allowed on top, once a model has spent all of its answer on thinking
SHORT_CHARS = 32  # a text below this is not refused for its length
PROBE = "seoga"  # a text that no embedding model refuses
_CANCELLED = "the work was cancelled"
MOST_OUTAGES = 2  # in a row, before the rest of the texts waits for another run

Kind = Literal["document", "query"]
Stop: TypeAlias = Callable[[], bool]
Report: TypeAlias = Callable[[str, int, int], None]  # a file that is being downloaded, its bytes so far, all its bytes


# --- errors: one for each thing a caller can do ---


class ProviderError(SeogaError):
    """A model server did not give what was asked; `status` is its HTTP status where it gave one."""

    def __init__(self, message: str, *, provider: str = "", model: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.provider, self.model, self.status = provider, model, status


class Refused(ProviderError):
    """No key, a wrong one, no credit, or wrong settings: nothing of this run will succeed."""


class ModelNotFound(ProviderError):
    """No such model, or nothing at this address: nothing of this run will succeed."""


class Rejected(ProviderError):
    """This very request is not accepted, and never will be."""


class Outage(ProviderError):
    """Out of reach, overloaded or broken, after bounded retries: the same request may succeed later."""

    retry_after: float | None = None  # seconds, where the server named them


class Cancelled(Outage):
    """`stop` said so."""


class BadAnswer(ProviderError):
    """An answer came that can't be used; nothing of it was."""


_Error = TypeVar("_Error", bound=ProviderError)


# --- the contract ---


@dataclass(slots=True)
class Usage:
    """What one provider was asked for since it was made."""

    calls: int = 0  # requests sent, repeated ones among them
    retries: int = 0
    input_tokens: int = 0  # cached ones among them
    output_tokens: int = 0
    cached_tokens: int = 0
    windowed: int = 0  # texts too long for the model, embedded as the mean of their parts
    last_error: str = ""


class Embedder(Protocol):
    """Turn texts into vectors of one space."""

    provider: str
    model: str
    batch_size: int
    usage: Usage

    def fingerprint(self) -> str:
        """Name all that decides the vector space: provider, model, dimension, prefixes; no URL and no key."""

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        """Embed at most `batch_size` texts in one request: (len(texts), dimension), rows of unit length, in order."""

    def close(self) -> None: ...


class ContextModel(Protocol):
    """Answer a prompt about one chunk of a document."""

    provider: str
    model: str
    usage: Usage

    def complete(self, *, system: str, document: str, chunk: str, max_tokens: int = 400) -> str:
        """Return the answer's text. `document` comes first, so that what it costs is cached for its other chunks."""

    def close(self) -> None: ...


class Reranker(Protocol):
    """Judge how well each text answers a query."""

    provider: str
    model: str
    usage: Usage

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in the order of `texts`; higher is better."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """How long to wait and how often to try again; all in seconds but `tries`."""

    deadline: float = 120.0  # for one request, from the first packet to the last byte; a cold model takes 60
    connect: float = 10.0
    tries: int = 5
    first_wait: float = 1.0  # doubles with each try, less a random part of up to a half
    longest_wait: float = 60.0  # a server that asks for more is given up: the work is done by a later run
    patience: float = 180.0  # after this no further try begins
    downloads: bool = True  # a local model that is not here yet is fetched


INDEXING = Policy()
SEARCHING = Policy(deadline=10.0, connect=3.0, tries=2, first_wait=0.3, longest_wait=1.0, patience=5.0, downloads=False)


def _never() -> bool:
    return False


class Options(TypedDict, total=False):
    """What the makers take beside the settings."""

    key: Callable[[str], str | None]  # the value of an environment variable; os.environ.get
    policy: Policy  # INDEXING
    stop: Stop  # asked every 0.2 s while a request or a wait is on: true ends it, with Cancelled
    sleep: Callable[[float], None]  # time.sleep
    report: Report  # told how far the download of a local model is, from another thread


# --- who they are and where ---


@dataclass(frozen=True, slots=True)
class _Service:
    """One provider's address and manners. `ends` matches what people paste after the base of an address."""

    base: str
    version: str  # added to an address that names none
    ends: str
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    needs_key: bool = True


_OPENAI_ENDS = r"/(chat/completions|completions|embeddings|responses)$"
_SERVICES = {
    "ollama": _Service("http://localhost:11434", "", r"(/v1|/api)(/\w+)*$", needs_key=False),
    "openai": _Service("https://api.openai.com", "v1", _OPENAI_ENDS),
    "groq": _Service("https://api.groq.com/openai", "v1", _OPENAI_ENDS),
    "gemini": _Service(
        "https://generativelanguage.googleapis.com", "v1beta", r"/models(/.*)?$", "x-goog-api-key", key_prefix=""
    ),
    "anthropic": _Service("https://api.anthropic.com", "v1", r"/messages$", "x-api-key", key_prefix=""),
    "voyage": _Service("https://api.voyageai.com", "v1", r"/(embeddings|rerank)$"),
    "cohere": _Service("https://api.cohere.com", "v2", r"/rerank$"),
}
_ALIASES = {"claude": "anthropic", "google": "gemini"}
_HAS_VERSION = re.compile(r"/v\d[^/]*(/|$)")


def _address(service: _Service, base: str, path: str) -> str:
    """Return an endpoint's address for a base given as host, with its version, or as any endpoint in full.

    `http://h:1234`, `http://h:1234/v1/` and `http://h:1234/v1/embeddings` are one; a prefix and a query are kept.
    """
    parts = urlsplit(base or service.base)
    prefix = re.sub(service.ends, "", parts.path.rstrip("/"))
    if service.version and not _HAS_VERSION.search(prefix) and "/openai/deployments/" not in prefix:
        prefix += f"/{service.version}"
    return urlunsplit((parts.scheme, parts.netloc, f"{prefix}/{path}", parts.query, ""))


def _azure_base(base: str, model: str) -> str:
    """Complete an Azure address that names only the resource: by deployment with `api-version`, else the v1 API."""
    parts = urlsplit(base)
    if not _is_azure(base) or parts.path.strip("/") not in ("", "openai"):
        return base
    path = f"/openai/deployments/{quote(model)}" if "api-version" in parts.query else "/openai/v1"
    return urlunsplit(parts._replace(path=path))


def _is_azure(url: str) -> bool:
    parts = urlsplit(url)
    return (parts.hostname or "").endswith(".azure.com") or "api-version=" in parts.query


def _checked_base(base: str) -> str:
    """Return a configured base URL with its scheme, or raise ConfigError."""
    base = base.strip()
    if not base:
        return ""
    full = base if "://" in base else f"http://{base}"
    try:
        parts = urlsplit(full)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"baseUrl is {_shown(full)!r}; an address such as http://localhost:1234/v1 is needed.")
    return full


def _shown(url: str) -> str:
    """Return a URL as it may be shown: without user, password and query."""
    scheme, _, rest = scrub(url).partition("://")
    return f"{scheme}://{re.split('[?#]', rest)[0].rpartition('@')[2]}"[:200]


def _is_local(host: str) -> bool:
    """Say whether a host is this machine or its own network: no proxy on the way, and a key is not always needed."""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".lan", ".internal", ".home.arpa"))


# --- one request, and the policy around it ---

# Last resorts, for servers whose status does not tell: llama.cpp and Ollama say 500, LM Studio 200, OpenAI 429.
_ABOUT_THE_TEXT = re.compile(
    r"(input|request|prompt|text|sequence)\b.{0,40}\btoo (large|long)|context (length|size|window)|unsupported value",
    re.IGNORECASE | re.DOTALL,
)
_ABOUT_THE_MODEL = re.compile(r"model.{0,80}not (found|loaded|exist)|no models? loaded", re.IGNORECASE | re.DOTALL)
# A wrong key (Gemini, as 400) and an empty account (OpenAI, as 429; Anthropic, as 400).
_ABOUT_THE_ACCOUNT = re.compile(r'"(API_KEY_INVALID|insufficient_quota|Your credit balance is too low[^"]*)"')


@dataclass(frozen=True, slots=True)
class _Reply:
    """What came of one request. `fault` says why no whole answer came, and `kind` what that is to a caller."""

    status: int = 0
    retry_after: str = ""
    location: str = ""
    body: bytes = b""
    fault: str = ""
    kind: type[ProviderError] = Outage


class _Exchange(threading.Thread):
    """One request on its own thread, so that the deadline and `stop` hold while a name, a header or a body is awaited.

    httpx's timeouts are for each read: a server that sends a byte now and then keeps them from ever firing.
    """

    def __init__(self, fetch: Callable[[Stop], _Reply]) -> None:
        super().__init__(name="seoga-request", daemon=True)
        self._fetch = fetch
        self.reply = _Reply()
        self.abandoned = False
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.reply = self._fetch(lambda: self.abandoned)
        except ImportError as error:  # the environment names a SOCKS proxy, and what httpx needs for one is not there
            self.reply = _Reply(fault=str(error), kind=Refused)
        except Exception as error:  # noqa: BLE001  whatever fails is a fault of this request; only its text goes on
            self.reply = _Reply(fault=str(error) or type(error).__name__)
        finally:
            del self._fetch  # it holds the key
            self.done.set()


def _fetch(
    open_client: Callable[[], httpx.Client], url: str, headers: Mapping[str, str], content: bytes, is_abandoned: Stop
) -> _Reply:
    with open_client().stream("POST", url, headers=headers, content=content) as response:
        parts, size = [], 0
        for part in response.iter_bytes():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                return _Reply(fault=f"its answer is larger than {MAX_ANSWER_BYTES >> 20} MB", kind=BadAnswer)
            if is_abandoned():
                break
            parts.append(part)
        retry_after, location = (response.headers.get(name, "") for name in ("retry-after", "location"))
        return _Reply(response.status_code, retry_after, location, b"".join(parts))


class _Link:
    """The way to one provider: address, key, policy and account. Several threads may use it at once."""

    def __init__(self, settings: Embedding | Contextualizer | Rerank, provider: str, options: Options) -> None:
        self.provider, self.model = provider, settings.model
        self.usage = Usage()
        self._service = _SERVICES[provider]
        base = _checked_base(settings.base_url) or self._service.base
        self._base = _azure_base(base, settings.model) if provider == "openai" else base
        self._host = urlsplit(self._base).hostname or ""
        self._preset = settings.api_key_preset
        self._variable = key_variable(self._preset or provider)
        self._find_key = options.get("key", os.environ.get)
        self._policy = options.get("policy", INDEXING)
        self._stop = options.get("stop", _never)
        self._sleep = options.get("sleep", time.sleep)
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._left: list[_Exchange] = []  # abandoned, but their threads still use the client
        self._unwanted: set[str] = set()

    @property
    def is_own_host(self) -> bool:
        """Whether this is the provider's own server, rather than another that speaks its dialect."""
        return self._host == urlsplit(self._service.base).hostname

    @property
    def is_azure(self) -> bool:
        return self.provider == "openai" and _is_azure(self._base)

    def error(self, kind: type[_Error], what: str, status: int | None = None) -> _Error:
        """Make an error of this provider, and note it."""
        error = kind(f"{self.provider} ({self.model}) {what}", provider=self.provider, model=self.model, status=status)
        self.usage.last_error = str(error)
        return error

    def spent(self, *, input_tokens: Any = 0, output_tokens: Any = 0, cached_tokens: Any = 0) -> None:
        """Add what an answer says it cost; anything but a whole number counts as nothing."""
        with self._lock:
            self.usage.input_tokens += _whole(input_tokens)
            self.usage.output_tokens += _whole(output_tokens)
            self.usage.cached_tokens += _whole(cached_tokens)

    def post(self, path: str, body: Mapping[str, Any], optional: Mapping[str, str] | None = None) -> Any:
        """Send `body` to the endpoint `path` and return the JSON that comes back, or raise a ProviderError.

        `optional` maps a parameter that some servers don't know to the older name used instead, or to nothing. Where a
        server names one as it rejects a request, the request is sent without it; if that helps, it stays so.
        """
        url, optional = _address(self._service, self._base, path), optional or {}
        result = self._send(url, _renamed(body, optional, self._unwanted))
        if isinstance(result, Rejected):
            named = {name for name in optional if name in body and re.search(rf"\b{name}\b", str(result))}
            if named - self._unwanted:
                result = self._send(url, _renamed(body, optional, self._unwanted | named))
                if not isinstance(result, ProviderError):
                    self._unwanted |= named
        if isinstance(result, ProviderError):
            raise result
        return result

    def _send(self, url: str, body: Mapping[str, Any]) -> Any:
        """Send until an answer comes or trying again is no use; return its JSON, or the error."""
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        policy, began = self._policy, time.monotonic()
        for tried in count(1):
            result = self._send_once(url, content)
            if not isinstance(result, Outage) or isinstance(result, Cancelled) or tried >= policy.tries:
                break
            wait = policy.first_wait * 2 ** (tried - 1) * random.uniform(0.5, 1.0)
            if result.retry_after is not None:
                wait = max(result.retry_after, policy.first_wait / 2)
            if wait > policy.longest_wait or time.monotonic() - began + wait > policy.patience:
                break
            while wait > 0 and not self._stop():
                self._sleep(min(TICK_SECONDS, wait))
                wait -= TICK_SECONDS
            with self._lock:
                self.usage.retries += 1
        return result

    def _send_once(self, url: str, content: bytes) -> Any:
        fault = _Reply(fault=_CANCELLED, kind=Cancelled) if self._stop() else self._key_fault()
        if fault:
            return self._judge(fault, url)
        exchange = _Exchange(partial(_fetch, self._open, url, self._headers(), content))
        until = time.monotonic() + self._policy.deadline
        exchange.start()
        with self._lock:
            self.usage.calls += 1
        while not exchange.done.wait(max(0.0, min(TICK_SECONDS, until - time.monotonic()))):
            if self._stop():
                fault = _Reply(fault=_CANCELLED, kind=Cancelled)
            elif time.monotonic() >= until:
                fault = _Reply(fault=f"no whole answer within {self._policy.deadline:g} s")
            if fault:
                exchange.abandoned = True
                with self._lock:
                    self._left = [left for left in self._left if left.is_alive()] + [exchange]
                return self._judge(fault, url)
        return self._judge(exchange.reply, url)

    # --- the key ---

    def _key_fault(self) -> _Reply | None:
        key = self._key()
        if not (key.isascii() and key.isprintable()):
            return _Reply(fault=f"the key in {self._variable} holds characters that no key has", kind=Refused)
        if not key and self._service.needs_key and not _is_local(self._host):
            return _Reply(fault=f"a key is needed. {self._key_remedy()}", kind=Refused)
        return None

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "user-agent": f"seoga/{VERSION}"}
        if self.provider == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        key, service = self._key(), self._service
        if key:
            headers |= {"api-key": key} if self.is_azure else {service.key_header: service.key_prefix + key}
        return headers

    def _key(self) -> str:
        """Return the key. A host that is not the provider's own gets one only where `apiKeyPreset` says which."""
        if not self._preset and not self.is_own_host:
            return ""
        return (self._find_key(self._variable) or "").strip()

    def _key_remedy(self) -> str:
        if self._preset or self.is_own_host:
            return f"Set the environment variable {self._variable} to a valid key"
        return (
            f"apiKeyPreset is empty, so no key is sent to {self._host}. Set it in config.json to the name of a key "
            f"({self.provider.capitalize()} stands for the environment variable {self._variable})"
        )

    def _detail(self, text: str) -> str:
        """Return a provider's own words, short, in one line, and without the key in case it echoes it."""
        key = self._key()
        text = text.replace(key, "***") if key else text
        return " ".join(scrub(text).split())[:DETAIL_CHARS]

    # --- what an answer means ---

    def _judge(self, reply: _Reply, url: str) -> Any:
        """Return the JSON of an answer, or the error that it or its absence is."""
        where = _shown(url)
        if reply.fault:
            hint = " `ollama serve` starts it." if self.provider == "ollama" and reply.kind is Outage else ""
            return self.error(reply.kind, f"at {where} gave no answer: {self._detail(reply.fault)}.{hint}")
        if 200 <= reply.status < 300:
            return self._read(reply, where)
        text = reply.body.decode("utf-8", "replace")
        kind = _kind(reply.status, text)
        said = self._detail(_message(text) or _shown(reply.location) if kind is Refused else _message(text))
        error = self.error(kind, f"at {where} {self._meaning(kind, reply)} ({reply.status}: {said})", reply.status)
        if isinstance(error, Outage):
            error.retry_after = _asked_wait(reply)
        return error

    def _read(self, reply: _Reply, where: str) -> Any:
        try:
            answer = json.loads(reply.body)
        except (ValueError, RecursionError):
            start = self._detail(reply.body[:1000].decode("utf-8", "replace"))
            return self.error(Outage, f"at {where} did not answer in JSON: {start!r}.", reply.status)
        said = _message(answer) if isinstance(answer, dict) and answer.get("error") else ""
        if not said:
            return answer
        kind = _kind(404 if _ABOUT_THE_MODEL.search(said) else 500, said)
        return self.error(kind, f"at {where} answered with an error: {self._detail(said)}.", reply.status)

    def _meaning(self, kind: type[ProviderError], reply: _Reply) -> str:
        if 300 <= reply.status < 400:
            return "answers with a redirect, which is not followed. Correct baseUrl."
        if kind is Refused:
            return f"refuses this account. {self._key_remedy()}."
        if kind is ModelNotFound:
            hint = f" (`ollama pull {self.model}` brings it)" if self.provider == "ollama" else ""
            return f"knows no such model or address. Check model and baseUrl{hint}."
        return "does not accept this request." if kind is Rejected else "is overloaded or out of order."

    # --- the client ---

    def _open(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                import httpx

                for name in ("httpx", "httpcore"):  # they log URLs at INFO, headers at DEBUG
                    logging.getLogger(name).setLevel(logging.WARNING)
                policy = self._policy
                self._client = httpx.Client(
                    timeout=httpx.Timeout(policy.deadline, connect=min(policy.connect, policy.deadline)),
                    verify=self._base.startswith("https:"),  # without TLS, certificates are 35 ms for nothing
                    follow_redirects=False,
                    trust_env=not _is_local(self._host),  # a proxy that the environment names can't reach this machine
                )
            return self._client

    def close(self) -> None:
        """Close the connections; those that an abandoned request still holds close when it ends."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and not any(exchange.is_alive() for exchange in self._left):
            client.close()


def _renamed(body: Mapping[str, Any], names: Mapping[str, str], unwanted: set[str]) -> dict[str, Any]:
    changed = {names[name] if name in unwanted else name: value for name, value in body.items()}
    changed.pop("", None)
    return changed


def _kind(status: int, text: str) -> type[ProviderError]:
    """Say what a status means to a caller; `text` is the body, for the servers whose status does not tell."""
    if 300 <= status < 400 or status in (401, 402, 403, 407) or _ABOUT_THE_ACCOUNT.search(text):
        return Refused
    if status in (404, 405, 410):
        return ModelNotFound
    if status in (408, 409, 425, 429) or status >= 500:
        return Rejected if _ABOUT_THE_TEXT.search(text) else Outage
    return Rejected


def _message(answer: Any) -> str:
    """Find the words of an error in the shapes in use: error.message, error, message, detail; else the whole text."""
    if isinstance(answer, str):
        try:
            return _message(json.loads(answer)) or answer
        except (ValueError, RecursionError):
            return answer
    for path in (("error", "message"), ("error",), ("message",), ("detail",), (0, "error", "message")):
        found = _dig(answer, *path)
        if found:
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return ""


def _asked_wait(reply: _Reply) -> float | None:
    """Return how many seconds the server asks to be left alone: `Retry-After` in seconds or as a date, or Gemini's."""
    asked = reply.retry_after.strip()
    in_body = re.search(rb'"retryDelay":\s*"(\d+(?:\.\d+)?)s"', reply.body[:100_000])
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", asked):
        return float(asked)
    if in_body and not asked:
        return float(in_body[1])
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(asked)
    except ValueError:
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time())


def _dig(value: Any, *path: str | int) -> Any:
    """Follow keys and positions into parsed JSON; None where there is nothing."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _keep_alive(text: str) -> int | str:
    """Ollama reads "5m" as a string, but seconds only as a number: `"-1"` is an error to it, -1 is for ever."""
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text


# --- embedding ---

# What retrieval models expect before a text, as their cards say, where the server does not add it: document, query.
MODEL_PREFIXES = (
    (r"gemini-embedding-2|embedding-?gemma", "title: none | text: ", "task: search result | query: "),
    (r"nomic-embed-text", "search_document: ", "search_query: "),
    (r"\be5\b(?!.*instruct)", "passage: ", "query: "),
    (
        r"\be5\b.*instruct",
        "",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
    ),
    (r"mxbai-embed-large", "", "Represent this sentence for searching relevant passages: "),
    (
        r"qwen3-embedding",
        "",
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    ),
)
# Texts in one request, at most; the configured batch size may be lower. Azure and others: only that.
_BATCH_TEXTS = {"openai": 2048, "gemini": 100, "voyage": 1000}
# Tokens in one request, at most.
_BATCH_TOKENS = {"openai": 300_000, "voyage": 120_000}
_ANY_TOKENS = 10**9


class _HttpEmbedder:
    """What the embedders share: prefixes, and the checks that an answer passes before any of it is used."""

    tasks: Mapping[Kind, str] = {}

    def __init__(self, settings: Embedding, link: _Link) -> None:
        self._settings, self._link = settings, link
        self.provider, self.model, self.usage = link.provider, settings.model, link.usage
        self.batch_size = min(settings.batch_size, _BATCH_TEXTS.get(self.provider, settings.batch_size))
        self._dimension = settings.dimension  # 0 until the first answer
        found = (row for row in MODEL_PREFIXES if re.search(row[0], self.model, re.IGNORECASE))
        _, document, query = next(found, ("", "", ""))
        self._prefix: Mapping[Kind, str] = {"document": document, "query": query}

    def fingerprint(self) -> str:
        kinds: tuple[Kind, Kind] = ("document", "query")
        each = (f"{kind}={self._prefix[kind]!r}{self.tasks.get(kind, '')}" for kind in kinds)
        return " ".join((self.provider, self.model, f"dimension={self._settings.dimension or 'native'}", *each))

    def embed(self, texts: Sequence[str], kind: Kind) -> NDArray[np.float32]:
        if not texts:
            import numpy as np

            return np.empty((0, self._dimension), np.float32)
        rows = self._ask([self._prefix[kind] + text for text in texts], kind)
        vectors = _unit_rows(rows, len(texts), self._dimension)
        if isinstance(vectors, str):
            raise self._link.error(BadAnswer, f"gave an answer that can't be used: {vectors}.")
        self._dimension = vectors.shape[1]
        return vectors

    def close(self) -> None:
        self._link.close()

    def _ask(self, texts: list[str], kind: Kind) -> list[Any]:
        """Return the vectors as they came, one for each text in order, or whatever is there instead."""
        raise NotImplementedError


class _OllamaEmbedder(_HttpEmbedder):
    def _ask(self, texts: list[str], kind: Kind) -> list[Any]:
        # A document that is too long is refused, and then embedded whole in parts; a long query's start will do.
        body: dict[str, Any] = {"model": self.model, "input": texts, "truncate": kind == "query"}
        if self._settings.dimension:
            body["dimensions"] = self._settings.dimension
        if self._settings.keep_alive:
            body["keep_alive"] = _keep_alive(self._settings.keep_alive)
        answer = self._link.post("api/embed", body)
        self._link.spent(input_tokens=_dig(answer, "prompt_eval_count"))
        return _listed(_dig(answer, "embeddings"))


class _OpenaiEmbedder(_HttpEmbedder):
    def _ask(self, texts: list[str], kind: Kind) -> list[Any]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._settings.dimension:
            body["dimensions"] = self._settings.dimension
        answer = self._link.post("embeddings", body, {"dimensions": "", "encoding_format": ""})
        self._link.spent(input_tokens=_dig(answer, "usage", "prompt_tokens"))
        return _in_order(_dig(answer, "data"), "embedding")


class _VoyageEmbedder(_HttpEmbedder):
    tasks: Mapping[Kind, str] = {"document": "document", "query": "query"}

    def _ask(self, texts: list[str], kind: Kind) -> list[Any]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "input_type": self.tasks[kind]}
        body["truncation"] = kind == "query"
        if self._settings.dimension:
            body["output_dimension"] = self._settings.dimension
        answer = self._link.post("embeddings", body, {"output_dimension": ""})
        self._link.spent(input_tokens=_dig(answer, "usage", "total_tokens"))
        return _in_order(_dig(answer, "data"), "embedding")


class _GeminiEmbedder(_HttpEmbedder):
    def __init__(self, settings: Embedding, link: _Link) -> None:
        super().__init__(settings, link)
        if not self._prefix["query"]:  # gemini-embedding-2 has prefixes, and ignores task types
            self.tasks = {"document": "RETRIEVAL_DOCUMENT", "query": "RETRIEVAL_QUERY"}

    def _ask(self, texts: list[str], kind: Kind) -> list[Any]:
        name = _gemini_model(self.model)
        shared: dict[str, Any] = {"model": name}
        if self.tasks:
            shared["taskType"] = self.tasks[kind]
        if self._settings.dimension:
            shared["outputDimensionality"] = self._settings.dimension
        # One content for each text: texts that share one become a single vector.
        requests = [{**shared, "content": {"parts": [{"text": text}]}} for text in texts]
        answer = self._link.post(f"{name}:batchEmbedContents", {"requests": requests})
        self._link.spent(input_tokens=_dig(answer, "usageMetadata", "promptTokenCount"))
        return [_dig(item, "values") for item in _listed(_dig(answer, "embeddings"))]


def _gemini_model(model: str) -> str:
    return "models/" + quote(model.removeprefix("models/"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _in_order(items: Any, field: str) -> list[Any]:
    """Return `field` of each item by its `index`; nothing when the indexes are not 0, 1, 2… once each."""
    listed = _listed(items)
    indexes = [_dig(item, "index") for item in listed]
    if all(index is None for index in indexes):  # some servers leave them out
        return [_dig(item, field) for item in listed]
    if not all(type(index) is int for index in indexes) or sorted(indexes) != list(range(len(listed))):
        return []
    return [_dig(item, field) for item in sorted(listed, key=lambda item: int(item["index"]))]


def _unit_rows(rows: list[Any], expected: int, dimension: int) -> NDArray[np.float32] | str:
    """Check the vectors of one answer and scale them to unit length: (expected, dimension) float32, or what is wrong.

    `dimension` 0 takes whatever came, so long as it is the same for all.
    """
    import numpy as np

    if len(rows) != expected:
        return f"{len(rows)} vectors in order for {expected} texts"
    if not all(isinstance(row, list) and row and set(map(type, row)) <= {int, float} for row in rows):
        return "a vector is missing, empty or not made of numbers"
    lengths = {len(row) for row in rows} | ({dimension} if dimension else set())
    if len(lengths) > 1:
        some = " or ".join(map(str, sorted(lengths)[:3]))
        return f"vectors of {some} numbers, where all must have {dimension or 'the same number'}"
    try:
        vectors = np.asarray(rows, dtype=np.float64)
    except OverflowError:
        return "a number is too large"
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        return "a vector holds NaN or infinity"
    if not (norms > 1e-12).all():
        return "a vector is all zeros"
    units: NDArray[np.float32] = (vectors / norms).astype(np.float32)
    return units


# --- context ---

_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)  # models for local use write them into the answer


class _HttpContextModel:
    """What the context models share: room for a model that thinks before it writes."""

    def __init__(self, settings: Contextualizer, link: _Link) -> None:
        self._settings, self._link = settings, link
        self.provider, self.model, self.usage = link.provider, settings.model, link.usage
        self._room = 0  # tokens beyond max_tokens

    def complete(self, *, system: str, document: str, chunk: str, max_tokens: int = 400) -> str:
        text, is_cut = self._ask(system, document, chunk, max_tokens + self._room)
        if not text and is_cut and not self._room:
            self._room = THINKING_TOKENS
            text, is_cut = self._ask(system, document, chunk, max_tokens + self._room)
        if not text:
            why = " It spent all its tokens on thinking: choose a model that doesn't." if is_cut else ""
            raise self._link.error(BadAnswer, f"gave an answer without text.{why}")
        return text

    def close(self) -> None:
        self._link.close()

    def _ask(self, system: str, document: str, chunk: str, max_tokens: int) -> tuple[str, bool]:
        """Return the text of the answer, and whether it was cut off at `max_tokens`."""
        raise NotImplementedError


class _OllamaContextModel(_HttpContextModel):
    def _ask(self, system: str, document: str, chunk: str, max_tokens: int) -> tuple[str, bool]:
        options = {"num_predict": max_tokens}
        if self._settings.num_ctx:
            options["num_ctx"] = self._settings.num_ctx
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _messages(system, document, chunk),
            "stream": False,
            "think": False,
            "options": options,
        }
        if self._settings.keep_alive:
            body["keep_alive"] = _keep_alive(self._settings.keep_alive)
        answer = self._link.post("api/chat", body)
        self._link.spent(input_tokens=_dig(answer, "prompt_eval_count"), output_tokens=_dig(answer, "eval_count"))
        return _text(_dig(answer, "message", "content")), _dig(answer, "done_reason") == "length"


class _OpenaiContextModel(_HttpContextModel):
    def _ask(self, system: str, document: str, chunk: str, max_tokens: int) -> tuple[str, bool]:
        # Models since o1 know only the newer name; servers of others' models often only the older one.
        names = ("max_completion_tokens", "max_tokens")
        newer, older = names if self._link.is_own_host or self._link.is_azure else names[::-1]
        body = {"model": self.model, "messages": _messages(system, document, chunk), newer: max_tokens}
        answer = self._link.post("chat/completions", body, {newer: older})
        usage, choice = _dig(answer, "usage"), _dig(answer, "choices", 0)
        self._link.spent(
            input_tokens=_dig(usage, "prompt_tokens"),
            output_tokens=_dig(usage, "completion_tokens"),
            cached_tokens=_dig(usage, "prompt_tokens_details", "cached_tokens"),
        )
        if _dig(choice, "message", "refusal") or _dig(choice, "finish_reason") == "content_filter":
            raise self._link.error(Rejected, "refuses to write about this text.")
        return _text(_dig(choice, "message", "content")), _dig(choice, "finish_reason") == "length"


class _GeminiContextModel(_HttpContextModel):
    def _ask(self, system: str, document: str, chunk: str, max_tokens: int) -> tuple[str, bool]:
        body: dict[str, Any] = {
            "contents": [{"role": "user", "parts": [{"text": part} for part in (document, chunk) if part]}],
            "generationConfig": {"maxOutputTokens": max_tokens},
        }
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        answer = self._link.post(f"{_gemini_model(self.model)}:generateContent", body)
        usage, candidate = _dig(answer, "usageMetadata"), _dig(answer, "candidates", 0)
        self._link.spent(
            input_tokens=_dig(usage, "promptTokenCount"),
            output_tokens=_whole(_dig(usage, "candidatesTokenCount")) + _whole(_dig(usage, "thoughtsTokenCount")),
            cached_tokens=_dig(usage, "cachedContentTokenCount"),
        )
        parts = _listed(_dig(candidate, "content", "parts"))
        text = _text("".join(_text(_dig(part, "text"), strip=False) for part in parts if not _dig(part, "thought")))
        reason = _dig(candidate, "finishReason")
        blocked = _dig(answer, "promptFeedback", "blockReason") or reason
        if not text and blocked not in (None, "STOP", "MAX_TOKENS"):
            raise self._link.error(Rejected, f"refuses to write about this text ({scrub(str(blocked))[:40]}).")
        return text, reason == "MAX_TOKENS"


class _AnthropicContextModel(_HttpContextModel):
    def _ask(self, system: str, document: str, chunk: str, max_tokens: int) -> tuple[str, bool]:
        content: list[dict[str, Any]] = [{"type": "text", "text": part} for part in (document, chunk) if part]
        if document:
            content[0]["cache_control"] = {"type": "ephemeral"}
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": max_tokens,
            "messages": [{"role": "user", "content": content}],
        }
        if system:
            body["system"] = system
        answer = self._link.post("messages", body)
        usage = _dig(answer, "usage")
        cached, written = _dig(usage, "cache_read_input_tokens"), _dig(usage, "cache_creation_input_tokens")
        self._link.spent(
            input_tokens=_whole(_dig(usage, "input_tokens")) + _whole(cached) + _whole(written),
            output_tokens=_dig(usage, "output_tokens"),
            cached_tokens=cached,
        )
        parts = [part for part in _listed(_dig(answer, "content")) if _dig(part, "type") == "text"]
        text = _text("".join(_text(_dig(part, "text"), strip=False) for part in parts))
        return text, _dig(answer, "stop_reason") == "max_tokens"


def _messages(system: str, document: str, chunk: str) -> list[dict[str, str]]:
    user = {"role": "user", "content": "\n\n".join(part for part in (document, chunk) if part)}
    return [{"role": "system", "content": system}, user] if system else [user]


def _text(value: Any, *, strip: bool = True) -> str:
    text = scrub(value) if isinstance(value, str) else ""
    return _THOUGHTS.sub("", text).strip() if strip else text


# --- reranking ---


class _HttpReranker:
    """Voyage's and Cohere's rerank; Jina, vLLM and others speak the latter."""

    def __init__(self, settings: Rerank, link: _Link) -> None:
        self._link = link
        self.provider, self.model, self.usage = link.provider, settings.model, link.usage

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        if not texts:
            return []
        limit = "top_k" if self.provider == "voyage" else "top_n"
        body = {"model": self.model, "query": query, "documents": list(texts), limit: len(texts)}
        answer = self._link.post("rerank", body)
        tokens = _dig(answer, "usage", "total_tokens") or _dig(answer, "meta", "tokens", "input_tokens")
        self._link.spent(input_tokens=tokens)
        scores = _in_order(_dig(answer, "data") or _dig(answer, "results"), "relevance_score")
        if len(scores) != len(texts) or not all(
            type(score) in (int, float) and math.isfinite(score) for score in scores
        ):
            raise self._link.error(BadAnswer, f"did not give one score for each of {len(texts)} texts.")
        return [float(score) for score in scores]

    def close(self) -> None:
        self._link.close()


# --- making them ---

_EMBEDDERS: dict[str, type[_HttpEmbedder]] = {
    "ollama": _OllamaEmbedder,
    "openai": _OpenaiEmbedder,
    "gemini": _GeminiEmbedder,
    "voyage": _VoyageEmbedder,
}
_CONTEXT_MODELS: dict[str, type[_HttpContextModel]] = {
    "ollama": _OllamaContextModel,
    "openai": _OpenaiContextModel,
    "groq": _OpenaiContextModel,
    "gemini": _GeminiContextModel,
    "anthropic": _AnthropicContextModel,
}
_RERANKERS: dict[str, type[_HttpReranker]] = {"voyage": _HttpReranker, "cohere": _HttpReranker}
_Made = TypeVar("_Made")


def _choose(kinds: Mapping[str, type[_Made]], section: str, provider: str, *others: str) -> tuple[str, type[_Made]]:
    name = _ALIASES.get(provider.casefold(), provider.casefold())
    if name not in kinds:
        known = ", ".join(sorted([*kinds, *others]))
        raise ConfigError(f"{section}.provider is {scrub(provider)[:80]!r}; it must be one of {known}.")
    return name, kinds[name]


def make_embedder(settings: Embedding, **options: Unpack[Options]) -> Embedder | None:
    """Make the configured embedder, or None where no model is; nothing is asked or imported before its first use.

    Raises ConfigError for an unknown provider or an unusable baseUrl.
    """
    if not settings.model:
        return None
    if settings.provider.casefold() == "local":
        from .local import LocalEmbedder  # only here: it builds on this file

        return LocalEmbedder(settings.model, dimension=settings.dimension, batch_size=settings.batch_size, **options)
    name, make = _choose(_EMBEDDERS, "embedding", settings.provider, "local")
    return make(settings, _Link(settings, name, options))


def make_context_model(settings: Contextualizer, **options: Unpack[Options]) -> ContextModel | None:
    """Make the configured context model, or None where no model is; otherwise as `make_embedder`."""
    if not settings.model:
        return None
    name, make = _choose(_CONTEXT_MODELS, "contextualizer", settings.provider)
    return make(settings, _Link(settings, name, options))


def make_reranker(settings: Rerank, **options: Unpack[Options]) -> Reranker | None:
    """Make the configured reranker, or None where no model is; otherwise as `make_embedder`, with SEARCHING's haste."""
    if not settings.model:
        return None
    options = {"policy": SEARCHING, **options}
    if settings.provider.casefold() == "local":
        from .local import LocalReranker

        return LocalReranker(settings.model, **options)
    name, make = _choose(_RERANKERS, "rerank", settings.provider, "local")
    return make(settings, _Link(settings, name, options))


# --- embedding many, the bad ones isolated ---


def embed_each(
    embedder: Embedder, texts: Sequence[str], *, stop: Stop = _never
) -> list[NDArray[np.float32] | ProviderError]:
    """Embed `texts` as documents; return for each, in order, its vector (dimension,) or the error it met.

    A rejected batch is halved until the bad texts stand alone, about 2 log2(n) requests for each of them, and no
    rejected request is sent twice. A text that is rejected alone is sent once more in two parts, then in four; the mean
    of the parts stands for it (`usage.windowed`), so that nothing of it is cut. Before a text is blamed, the server has
    to take another one; where it takes none, the error is Refused. A batch that got a bad answer or a bare 500 is
    halved too, once the server has shown that it works. After two outages in a row, and after any error that the whole
    run shares (Refused, ModelNotFound, Cancelled), the rest get that error without a request.
    Give `make_embedder` the same `stop`, so that it holds within a request too.
    """
    run = _Run(embedder, stop)
    unique = dict.fromkeys(texts)
    for text in [text for text in unique if not text.strip()]:
        run.found[text] = Rejected("an empty text has no vector.", provider=embedder.provider, model=embedder.model)
    tokens = _BATCH_TOKENS.get(embedder.provider, _ANY_TOKENS)
    for batch in _batches([text for text in unique if text not in run.found], embedder.batch_size, tokens):
        run.embed(batch)
    return [run.found[text] for text in texts]


def _batches(texts: Sequence[str], most: int, tokens: int) -> Iterator[list[str]]:
    """Group texts, in order, into batches of at most `most` texts and about `tokens` tokens."""
    batch: list[str] = []
    spent = 0
    for text in texts:
        cost = _tokens(text)
        if batch and (len(batch) >= most or spent + cost > tokens):
            yield batch
            batch, spent = [], 0
        batch.append(text)
        spent += cost
    if batch:
        yield batch


def _tokens(text: str) -> int:
    """Estimate a text's tokens from above: each character outside ASCII is one, four of ASCII are one."""
    if text.isascii():
        return len(text) // 4 + 1
    ascii_only = len(text.encode("ascii", "ignore"))
    return len(text) - ascii_only + ascii_only // 4 + 1


class _Run:
    """What one call of `embed_each` has found and learned."""

    def __init__(self, embedder: Embedder, stop: Stop) -> None:
        self.found: dict[str, NDArray[np.float32] | ProviderError] = {}
        self._embedder, self._stop = embedder, stop
        self._outages = 0  # in a row
        self._works = False  # it took a text since the last one was given up: what it refuses is the text's fault
        self._over: ProviderError | None = None  # what every further text gets

    def embed(self, batch: list[str]) -> None:
        parts = deque([batch])
        while parts:
            part = parts.popleft()
            answer = self._ask(part)
            if not isinstance(answer, ProviderError):
                self.found.update(zip(part, answer, strict=True))
            elif not _may_be_the_texts(answer):
                self._give_up(part, answer)
            elif len(part) > 1 and isinstance(answer, Rejected):
                parts.extendleft(_halves(part))
            elif (fault := self._probe()) is not None:
                self._give_up(part, fault)
            elif len(part) > 1:
                parts.extendleft(_halves(part))
            else:
                self._embed_windows(part[0], answer)

    def _ask(self, texts: list[str]) -> NDArray[np.float32] | ProviderError:
        if self._over:
            return self._over
        try:
            if self._stop():
                raise Cancelled(f"was not asked: {_CANCELLED}.", provider=self._embedder.provider)
            answer = self._embedder.embed(texts, "document")
        except ProviderError as error:
            if isinstance(error, (Refused, ModelNotFound, Cancelled)):
                self._over = error
            return error.with_traceback(None)
        self._outages, self._works = 0, True
        return answer

    def _probe(self) -> ProviderError | None:
        """Return None if the server takes a harmless text, so that texts are to blame for an error; else its error."""
        answer = None if self._works else self._ask([PROBE])
        if not isinstance(answer, ProviderError):
            return None
        if isinstance(answer, Rejected):  # no model loaded, or a setting it doesn't take
            self._over = answer = Refused(
                f"{answer} It rejects any text: check model, dimension and the server.",
                provider=answer.provider,
                model=answer.model,
                status=answer.status,
            )
        self._note(answer)
        return answer

    def _embed_windows(self, text: str, error: ProviderError) -> None:
        """Embed a text that is refused alone by the mean of its halves, else of its quarters."""
        for parts in (2, 4) if len(text) >= SHORT_CHARS else ():
            size = -(-len(text) // parts)
            windows = [window for low in range(0, len(text), size) if (window := text[low : low + size]).strip()]
            rows: list[NDArray[np.float32]] = []
            for batch in _batches(windows, self._embedder.batch_size, _ANY_TOKENS):
                answer = self._ask(batch)
                if isinstance(answer, ProviderError):
                    error = answer
                    break
                rows += list(answer)
            if len(rows) == len(windows):
                self.found[text] = _mean(rows)
                self._embedder.usage.windowed += 1
                return
            if not _may_be_the_texts(error):
                break
        self._give_up([text], error)

    def _give_up(self, part: list[str], error: ProviderError) -> None:
        self._note(error)
        self._works = False
        self.found.update(dict.fromkeys(part, self._over or error))

    def _note(self, error: ProviderError) -> None:
        if isinstance(error, (Outage, BadAnswer)):
            self._outages += 1
        if self._outages >= MOST_OUTAGES and self._over is None:
            self._over = error


def _may_be_the_texts(error: ProviderError) -> bool:
    """Say whether other texts may succeed. A bare 500 is how some servers fail on one text."""
    return isinstance(error, (Rejected, BadAnswer)) or (isinstance(error, Outage) and error.status == 500)


def _halves(part: list[str]) -> tuple[list[str], list[str]]:
    """Return the second half, then the first, as `extendleft` turns them round."""
    middle = len(part) // 2
    return part[middle:], part[:middle]


def _mean(rows: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the mean of unit vectors, at unit length; the first of them where they cancel out."""
    import numpy as np

    mean: NDArray[np.float32] = np.mean(rows, axis=0, dtype=np.float32)
    norm = float(np.linalg.norm(mean))
    return mean / np.float32(norm) if norm > 1e-3 else rows[0]
