"""A loopback server that speaks each provider's wire format, and misbehaves on a script.

`FakeProvider` answers by path: ollama, openai (and azure, groq), gemini, anthropic, voyage, cohere. It keeps every
request. `script` holds what the next requests meet, one entry each; `always` holds for every request after that. An
entry takes a Request and returns an Answer, or None for the usual one.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

DIMENSION = 8
KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


@dataclass
class Request:
    path: str  # with its query
    headers: dict[str, str]
    body: bytes
    json: Any

    @property
    def texts(self) -> list[str]:
        """The texts to embed, whatever the format."""
        if "requests" in self.json:
            return [item["content"]["parts"][0]["text"] for item in self.json["requests"]]
        return list(self.json.get("input", []))

    @property
    def key(self) -> str:
        sent = [self.headers[name] for name in KEY_HEADERS if name in self.headers]
        return sent[0].removeprefix("Bearer ") if sent else ""


@dataclass
class Answer:
    """What goes back; `play`, when given, has the socket to itself instead."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    play: Callable[[socket.socket, threading.Event], None] | None = None


Entry = Callable[[Request], Answer | None]
Refusal = Callable[[Request], Answer]


def vector(text: str, dimension: int = DIMENSION) -> list[float]:
    """A vector that only this text has, of no particular length."""
    numbers = (sha256(f"{place}:{text}".encode()).digest()[0] - 127.5 for place in range(dimension))
    return [round(number, 3) for number in numbers]


class FakeProvider:
    def __init__(self) -> None:
        self.reset()
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def reset(self) -> None:
        """Forget what was asked and scripted."""
        self.requests: list[Request] = []
        self.script: deque[Entry] = deque()
        self.always: Entry | None = None
        self.key = ""  # demanded when set
        self.dimension = DIMENSION  # of a model that is not asked for another
        self.text = "Context: about pumps."
        self.closing = threading.Event()

    def let_go(self) -> None:
        """End the answers that would go on."""
        self.closing.set()

    def close(self) -> None:
        self.let_go()
        self._server.shutdown()
        self._server.server_close()

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        entry = self.script.popleft() if self.script else self.always
        scripted = entry(request) if entry else None
        if scripted is not None:
            return scripted
        if self.key and request.key != self.key:  # the worst server: it says what it was sent
            return says(401, f"Incorrect API key provided: {request.key}")(request)
        return Answer(body=json.dumps(self.usual(request)).encode())

    def usual(self, request: Request) -> Any:
        path, asked = urlsplit(request.path).path, request.json
        if path.endswith("/api/embed"):
            return {"model": asked["model"], "embeddings": self._vectors(request), "prompt_eval_count": 7}
        if path.endswith("/embeddings"):
            data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(self._vectors(request))]
            return {"object": "list", "data": data, "usage": {"prompt_tokens": 7, "total_tokens": 7}}
        if path.endswith(":batchEmbedContents"):
            return {"embeddings": [{"values": v} for v in self._vectors(request)]}
        if path.endswith("/rerank"):
            scores = [{"index": n, "relevance_score": len(text) / 100} for n, text in enumerate(asked["documents"])]
            return {"data" if "top_k" in asked else "results": sorted(scores, key=lambda s: -s["relevance_score"])}
        return self._written(path, "stop")

    def _vectors(self, request: Request) -> list[list[float]]:
        first = request.json.get("requests", [{}])[0] if "requests" in request.json else request.json
        names = ("dimensions", "output_dimension", "outputDimensionality")
        dimension = next((first[name] for name in names if name in first), self.dimension)
        return [vector(text, dimension) for text in request.texts]

    def _written(self, path: str, reason: str, text: str | None = None) -> Any:
        text = self.text if text is None else text
        if path.endswith("/api/chat"):
            message = {"role": "assistant", "content": text}
            return {"message": message, "done_reason": reason, "prompt_eval_count": 11, "eval_count": 3}
        if path.endswith("/chat/completions"):
            usage = {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
            message = {"role": "assistant", "content": text}
            return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}
        if path.endswith(":generateContent"):
            usage = {"promptTokenCount": 11, "candidatesTokenCount": 3, "cachedContentTokenCount": 5}
            finish = {"stop": "STOP", "length": "MAX_TOKENS"}.get(reason, reason)
            content = {"role": "model", "parts": [{"text": "hm", "thought": True}, *([{"text": text}] if text else [])]}
            return {"candidates": [{"content": content, "finishReason": finish}], "usageMetadata": usage}
        if path.endswith("/messages"):
            usage = {"input_tokens": 6, "cache_read_input_tokens": 5, "output_tokens": 3}
            finish = {"stop": "end_turn", "length": "max_tokens"}[reason]
            return {"content": [{"type": "text", "text": text}], "stop_reason": finish, "usage": usage}
        return {"error": f"Unexpected endpoint or method. (POST {path})"}

    def cut(self, request: Request) -> Answer:
        """A script's entry: a model that spent all its tokens before it wrote a word."""
        return Answer(body=json.dumps(self._written(urlsplit(request.path).path, "length", "")).encode())

    def changed(self, change: Callable[[list[Any]], Any]) -> Entry:
        """A script's entry: the usual answer, its list of vectors put through `change`."""

        def entry(request: Request) -> Answer:
            answer = self.usual(request)
            if "data" in answer:
                vectors = change([item["embedding"] for item in answer["data"]])
                answer["data"] = [{"index": n, "embedding": v} for n, v in enumerate(vectors)]
            elif request.path.endswith(":batchEmbedContents"):
                answer["embeddings"] = [
                    {"values": v} for v in change([item["values"] for item in answer["embeddings"]])
                ]
            else:
                answer["embeddings"] = change(answer["embeddings"])
            return Answer(body=json.dumps(answer).encode())

        return entry

    def indexes(self, change: Callable[[list[int]], list[Any]]) -> Entry:
        """A script's entry: the usual answer of the OpenAI kind, its items in the order and with the indexes given."""

        def entry(request: Request) -> Answer:
            answer = self.usual(request)
            items = answer["data"]
            order = change(list(range(len(items))))
            answer["data"] = [{**items[n % len(items) if isinstance(n, int) else 0], "index": n} for n in order]
            return Answer(body=json.dumps(answer).encode())

        return entry


def says(status: int, message: Any = "no", **headers: str) -> Refusal:
    """An error in OpenAI's shape, the commonest."""
    body = json.dumps({"error": {"message": message}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: Answer(status, body, {"content-type": "application/json", **named})


def sends(body: bytes | Any, status: int = 200) -> Refusal:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda request: Answer(status, content)


def rejects(marks: Callable[[str], bool], status: int = 400, message: str = "no") -> Entry:
    """Reject a request when any of its texts is marked."""
    refuse = says(status, message)
    return lambda request: refuse(request) if any(map(marks, request.texts)) else None


def resets(request: Request) -> Answer:
    def play(connection: socket.socket, closing: threading.Event) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return Answer(play=play)


def hangs(request: Request) -> Answer:
    return Answer(play=lambda connection, closing: _wait(closing))


def _wait(closing: threading.Event) -> None:
    closing.wait(20)


def trickles(where: str) -> Entry:
    """Send a byte each 0.1 s, of the headers or of the body: no single read ever takes long."""
    start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    start += b"x-slow: " if where == "headers" else b"content-length: 1000000\r\n\r\n"

    def play(connection: socket.socket, closing: threading.Event) -> None:
        connection.sendall(start)
        while not closing.wait(0.1):
            connection.sendall(b" ")

    return lambda request: Answer(play=play)


def streams(size: int, *, named: bool) -> Entry:
    """Send `size` bytes, made as they go; `named`: with a content-length."""
    length = f"content-length: {size}\r\n" if named else "connection: close\r\n"

    def play(connection: socket.socket, closing: threading.Event) -> None:
        connection.sendall(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{length}\r\n".encode())
        block = b" " * 1024 * 1024
        for _ in range(size // len(block)):
            connection.sendall(block)

    return lambda request: Answer(play=play)


def truncates(request: Request) -> Answer:
    """Promise more than comes."""
    start = b'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{"embeddings": [[1'
    return Answer(play=lambda connection, closing: connection.sendall(start))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is part of the script."""


class _Handler(BaseHTTPRequestHandler):
    fake: FakeProvider
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # headers and body in one packet

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.fake.answer(Request(self.path, headers, body, json.loads(body)))
        if answer.play:
            self.close_connection = True
            answer.play(self.connection, self.fake.closing)
            return
        self.send_response(answer.status)
        for name, value in {**answer.headers, "content-length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Be silent."""


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ticking(seconds: float) -> Iterator[bool]:
    """Yield False for so long, then True."""
    until = time.monotonic() + seconds
    while True:
        yield time.monotonic() > until
