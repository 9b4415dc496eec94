#!/usr/bin/env python3
"""Measure how long a client waits: from the start of `seoga serve` to its answer to `tools/list`, over a raw pipe.

The floor is a process that only imports the MCP server library. Both run in turn, in pairs, so that a busy machine
slows both alike; the ratio of a pair is what counts. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

SERVE = [sys.executable, "-P", "-c", "import sys; from seoga.rag import main; sys.exit(main())", "serve"]
FLOOR = [sys.executable, "-P", "-c", "import mcp.server.mcpserver"]
INITIALIZE: dict[str, Any] = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}


def seconds_to_tools(env: dict[str, str]) -> tuple[float, int]:
    """Return the seconds until the answer, and how many tools it lists."""
    began = time.perf_counter()
    with subprocess.Popen(
        SERVE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as server:
        assert server.stdin
        assert server.stdout
        messages = ({"id": 1, **INITIALIZE}, {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"})
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline()) if "id" in message else {}
        seconds = time.perf_counter() - began
        server.stdin.close()
        server.wait(timeout=60)
    return seconds, len(answer["result"]["tools"])


def seconds_of_floor(env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(FLOOR, env=env, check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "SEOGA_HOME": home}
        tools = seconds_to_tools(env)[1]  # both once, uncounted: the first start compiles
        seconds_of_floor(env)
        pairs = [(seconds_to_tools(env)[0], seconds_of_floor(env)) for _ in range(args.pairs)]
    serve, floor = zip(*pairs, strict=True)
    ratios = [one / other for one, other in pairs]
    print(f"start-up, {args.pairs} pairs, {tools} tools         median      min      max")
    for name, values in (("serve to tools/list, s", serve), ("import of the library, s", floor), ("ratio", ratios)):
        print(f"{name:34} {statistics.median(values):8.3f} {min(values):8.3f} {max(values):8.3f}")


if __name__ == "__main__":
    main()
