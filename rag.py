"""The command line: `seoga add`, `search`, `status`, `remove`, `eval`, `exec`, `serve`, `prune-orphans`.

Results go to standard output, everything else to standard error; `--json` prints the record that the matching MCP tool
returns. Exit codes: 0 done, 1 an error or a file that failed, 2 cancelled, 3 another indexer is at it. What a command
does lies in the files below; this one parses, prints and translates errors.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from difflib import unified_diff
from pathlib import Path
from typing import Any, NoReturn

from .clients import CLIENTS, entry, set_up
from .clients import command as start_command
from .config import (
    VERSION,
    Config,
    ConfigError,
    SeogaError,
    base_folder,
    find_kb,
    load_config,
    log_to_file,
    scrub,
    write_atomically,
)
from .evaluate import MODES, Evaluation, draft, evaluate, read_questions
from .index import COUNTERS, Outcome, Progress, Stop, preview, run
from .queue import QUEUE_NAME, Queue, prune_orphans, work_through
from .server import serve
from .store import LockedError, Store
from .tools import IndexInfo, SearchHit, SearchResults, Tools, forget, homeless, register

log = logging.getLogger(f"{__package__}.rag")  # also where this file is `__main__`
DONE, FAILED, CANCELLED, LOCKED = 0, 1, 2, 3
SNIPPET_CHARS = 280
DEFAULT_PORT = 8765  # of serve --transport http
PLAIN_SECONDS = 2.0  # between lines of progress that is not on a terminal
SHOWN_PROBLEMS = 20

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


# --- arguments ---


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with 1: argparse's own 2 would tell a host program that the work was cancelled."""
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{self.prog}: {_shown(message)}\n")


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="seoga",
        description="Index folders of documents and search them, in Korean and English, here and over MCP.",
        epilog="Begin with: seoga add FOLDER. Without a command and with piped input, seoga serves MCP.",
    )
    parser.add_argument("--version", action="version", version=f"seoga {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_people_commands(commands)
    _add_program_commands(commands)
    return parser


def _command(
    commands: Any, name: str, work: Callable[[argparse.Namespace], int], help: str, *, base: bool = True
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(work=work)
    if base:
        text = "folder that holds the knowledge bases (default: $SEOGA_HOME, else your data folder)"
        parser.add_argument("--base-path", metavar="P", help=text)
    return parser


def _add_people_commands(commands: Any) -> None:
    add = _command(commands, "add", _add, "make a knowledge base of folders and index it; again: index what changed")
    add.add_argument("folders", nargs="+", metavar="FOLDER")
    add.add_argument("--name", help="its name (default: the first folder's)")
    add.add_argument("--id", help="its id (default: made from the name)")
    add.add_argument(
        "--include", action="append", metavar="GLOB", default=[], help="index only these files; may be repeated"
    )
    add.add_argument("--exclude", action="append", metavar="GLOB", default=[], help="leave these out; may be repeated")
    add.add_argument("--no-embedding", action="store_true", help="keywords only: no model is downloaded or run")
    add.add_argument("--force", action="store_true", help="read every file again; purge what is gone without a doubt")
    add.add_argument("--json", action="store_true", help="print the outcome as JSON")

    search = _command(commands, "search", _search, "find passages by words")
    search.add_argument("query", nargs="+", metavar="QUERY")
    search.add_argument("--kb", help="knowledge base, by id or name (default: all)")
    search.add_argument(
        "--top-k", type=_whole(1, 50), default=5, metavar="N", help="passages to show, 1 to 50 (default: 5)"
    )
    search.add_argument("--mode", choices=["auto", "hybrid", "bm25", "vector"], default="auto")
    search.add_argument(
        "--path-prefix", metavar="P", help="only files under this path, absolute or within a source folder"
    )
    search.add_argument("--file-type", metavar="T", help="only these types, for example pdf,docx")
    search.add_argument("--explain", action="store_true", help="show why each hit stands where it does")
    search.add_argument("--json", action="store_true", help="print what the tool search_documents returns")

    similar = _command(commands, "similar", _similar, "find documents like one document or passage")
    similar.add_argument("like", metavar="PATH", help="an indexed document, or a chunk id")
    similar.add_argument("--kb", help="knowledge base, by id or name (default: all)")
    similar.add_argument("--top-k", type=_whole(1, 50), default=5, metavar="N", help="documents to show (default: 5)")
    similar.add_argument("--json", action="store_true", help="print what the tool find_similar returns")

    status = _command(commands, "status", _status, "show what is indexed, what is not, and why")
    status.add_argument("kb", nargs="?", metavar="KB", help="knowledge base, by id or name (default: all)")
    status.add_argument("--changes", action="store_true", help="also compare with the folders")
    status.add_argument("--json", action="store_true", help="print what the tool get_index_info returns, as a list")

    remove = _command(commands, "remove", _remove, "forget a knowledge base and its index; never a document")
    remove.add_argument("kb", metavar="KB", help="id or name")
    remove.add_argument("--yes", action="store_true", help="don't ask")

    doctor = _command(commands, "doctor", _doctor, "look at what works here, and say what to do about what doesn't")
    doctor.add_argument("--json", action="store_true", help="print the checks as JSON")

    client = _command(commands, "setup", _setup, "put seoga into an MCP client's settings", base=False)
    client.add_argument("--client", choices=list(CLIENTS), help="the client; its file is found, and a copy is kept")
    client.add_argument("--print", action="store_true", help="only print the entry, for any other client")
    client.add_argument("--undo", action="store_true", help="take seoga out of the client's settings again")
    client.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    client.add_argument("--base-path", metavar="P", help="have the client's seoga use the knowledge bases there")

    measure = _command(commands, "eval", _eval, "measure search with questions whose documents are known")
    measure.add_argument("--kb", help="knowledge base, by id or name (default: the only one)")
    source = measure.add_mutually_exclusive_group(required=True)
    form = 'lines of {"query": "…", "relevant": ["contract.docx"]}: source paths, their ends, or chunk ids'
    source.add_argument("--queries", metavar="FILE", help=form)
    make = "have the configured model draft N such lines about the documents"
    source.add_argument("--make", type=_whole(1, 10_000), metavar="N", help=make)
    modes = f"of {','.join(MODES)} (default: all)"
    measure.add_argument("--modes", type=_modes, default=list(MODES), metavar="M,M", help=modes)
    measure.add_argument("--out", metavar="FILE", help="where --make writes (default: to standard output)")
    measure.add_argument("--json", action="store_true", help="print the figures, and each question's places, as JSON")


def _add_program_commands(commands: Any) -> None:
    execute = _command(commands, "exec", _exec, "index one knowledge base by its folder", base=False)
    execute.add_argument(
        "--path", required=True, metavar="KB", help="the knowledge base's folder, which holds config.json"
    )
    execute.add_argument(
        "--force", action="store_true", help="read every file again; purge what is gone without a doubt"
    )
    partial = "have models do their part anew; no document is read"
    execute.add_argument("--partial", choices=["contextualization", "embedding"], default="", help=partial)
    execute.add_argument(
        "--dry-run", action="store_true", help="only say what would be read, and what models would be asked"
    )
    execute.add_argument("-v", "--verbose", action="store_true", help="name each file")
    execute.add_argument("--json", action="store_true", help="print the outcome as JSON")

    server = _command(commands, "serve", _serve, "serve MCP over every knowledge base")
    server.add_argument("--transport", choices=["stdio", "http"], default="stdio")
    server.add_argument("--host", default="127.0.0.1", metavar="H", help="address for http (default: 127.0.0.1)")
    server.add_argument("--port", type=_whole(0, 65535), default=DEFAULT_PORT, metavar="N", help="0: any that is free")
    server.add_argument("--token", default="", metavar="T", help="what clients must bring (better: $SEOGA_TOKEN)")
    server.add_argument("--read-only", action="store_true", help="offer no tool that changes anything")

    server.add_argument("--watch", action="store_true", help="have what changes in the folders indexed meanwhile")

    queue = _command(commands, "exec-queue", _exec_queue, "index what waits in a queue", base=False)
    queue.add_argument("--queue-file", required=True, metavar="Q", help=f"{QUEUE_NAME} in a folder of knowledge bases")
    queue.add_argument("--sweep-all", action="store_true", help="also what is deferred")

    smoke = _command(
        commands, "smoke-ocr", _smoke_ocr, "read a scanned PDF or picture by OCR, print its text", base=False
    )
    smoke.add_argument("--pdf", required=True, metavar="P", help="the PDF or picture")

    _command(commands, "prune-orphans", _prune, "remove the folders of knowledge bases whose config.json was deleted")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return number


def _modes(text: str) -> list[str]:
    modes = [part.strip() for part in text.split(",") if part.strip()]
    if not modes or (unknown := [mode for mode in modes if mode not in MODES]):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) if modes else text!r} is none of {', '.join(MODES)}")
    return list(dict.fromkeys(modes))


# --- indexing ---


def _add(args: argparse.Namespace) -> int:
    base = base_folder(args.base_path)
    folders = [_folder(folder) for folder in args.folders]
    ids = (args.name or "", args.id or "")
    config, is_new = register(base, folders, *ids, args.include, args.exclude, embedding=not args.no_embedding)
    if is_new:
        _say(f"New knowledge base {config.name} (id {config.id}) in {config.folder}")
    else:
        _say(f"Bringing the knowledge base {config.name} (id {config.id}) up to date.")
    return _index(config, force=args.force, as_json=args.json)


def _folder(given: str) -> str:
    path = os.path.abspath(os.path.expanduser(given))
    if os.path.isfile(path):
        raise ConfigError(
            f"{_shown(given)} is a file. Name the folder it lies in; --include '*.pdf' limits what is indexed."
        )
    if not os.path.isdir(path):
        raise ConfigError(f"there is no folder {_shown(given)}. Check the spelling, or whether its drive is connected.")
    return path


def _exec(args: argparse.Namespace) -> int:
    config = load_config(Path(os.path.abspath(os.path.expanduser(args.path))))
    if args.dry_run:
        return _dry_run(config, args)
    return _index(config, force=args.force, as_json=args.json, partial=args.partial, verbose=args.verbose)


def _dry_run(config: Config, args: argparse.Namespace) -> int:
    result = preview(config, force=args.force, partial=args.partial)
    paths = result.pop("paths")
    if args.json:
        return _print_json(result)
    for path in paths if args.verbose else ():
        print(_shown(path))
    for note in result["notes"]:
        _say(f"Note: {note}")
    print(f"{result['files']:,} files would be read, {result['deleted']:,} would be looked at for purging.")
    for name, counts in (("contexts", result["contexts"]), ("embedding", result["embedding"])):
        if counts["calls"]:
            texts = f"{counts['texts']:,} texts in " if "texts" in counts else ""
            print(f"{name}: {texts}{counts['calls']:,} calls, about {counts['tokens']:,} tokens.")
    return DONE


def _index(config: Config, *, force: bool, as_json: bool, partial: str = "", verbose: bool = False) -> int:
    """Run the indexer with progress and signals; print the outcome."""
    for warning in config.warnings:
        _say(f"Note: {warning}")
    with _progress(verbose) as report:
        outcome = run(config, force=force, partial=partial, report=report, on_start=_stop_on_signals)
    if as_json:
        _print_json({"kb_id": config.id, **outcome.as_dict()})
    else:
        _print_outcome(config, outcome)
    if outcome.status == "cancelled":
        return CANCELLED
    return FAILED if outcome.counts["failed"] or outcome.enriched.get("refused") else DONE


def _stop_on_signals(stop: Stop) -> None:
    """The first signal asks the run to stop, what is done kept; the second ends the process (the index stays sound)."""

    def handle(number: int, frame: object) -> None:
        if stop.requested():
            os._exit(128 + number)
        stop.request()
        _say("Stopping; what was read is kept. Once more ends it at once.")

    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), handle)


def _print_outcome(config: Config, outcome: Outcome) -> None:
    counts = outcome.counts
    parts = [f"{counts[name]:,} {name.replace('_', ' ')}" for name in COUNTERS if counts[name]]
    _say(f"{outcome.status.capitalize()} in {outcome.seconds:.1f} s.")
    print(f"{_shown(config.name)}: {', '.join(parts) or 'nothing to index'}")
    models = [
        f"{count:,} {name.replace('_', ' ')}" for name, count in outcome.enriched.items() if count and name != "usage"
    ]
    if models:
        print(f"chunks: {', '.join(models)}")
    for path, reason in outcome.failures[:SHOWN_PROBLEMS]:
        _say(f"  {path}: {reason}")
    if len(outcome.failures) > SHOWN_PROBLEMS:
        _say(f"  … and {len(outcome.failures) - SHOWN_PROBLEMS} more: `seoga status {config.id}`")
    for warning in outcome.warnings:
        _say(f"Note: {warning}")


@contextlib.contextmanager
def _progress(verbose: bool) -> Iterator[Callable[[Progress], None]]:
    """Give a function that shows progress: a bar on a terminal, else a line now and then."""
    if sys.stderr.isatty() and not verbose:
        with _bar() as show:
            yield show
        return
    last = [time.monotonic()]

    def report(progress: Progress) -> None:
        if verbose or time.monotonic() - last[0] >= PLAIN_SECONDS:
            last[0] = time.monotonic()
            facts = progress.as_dict()
            left = f", about {facts['remaining_seconds']:.0f} s left" if facts["remaining_seconds"] else ""
            done = f"{progress.done:,} of {progress.total:,} {progress.unit}"
            _say(f"{progress.stage}: {done}, {facts['per_second']}/s{left}")
            if (verbose or progress.where) and progress.file:
                _say(f"  {progress.file}{progress.where and f', {progress.where}'}")

    yield report


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(), TextColumn("[dim]{task.fields[file]}"),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scanning", total=None, rate="", file="")

        def report(progress: Progress) -> None:
            name = " ".join(filter(None, (escape(_shown(os.path.basename(progress.file)))[-40:], progress.where)))
            rate = f"{progress.as_dict()['per_second']}/s"
            total = progress.total or None
            bar.update(task, description=progress.stage, total=total, completed=progress.done, rate=rate, file=name)

        yield report


# --- searching and showing ---


def _search(args: argparse.Namespace) -> int:
    tools = Tools(base_folder(args.base_path))
    query = " ".join(args.query)
    found = tools.search_documents(
        query, args.kb, args.top_k, search_mode=args.mode, path_prefix=args.path_prefix, file_type=args.file_type,
        explain=args.explain,
    )  # fmt: skip
    if args.json:
        return _print_json(asdict(found))
    _print_results(found, query)
    return DONE


def _similar(args: argparse.Namespace) -> int:
    path = os.path.abspath(os.path.expanduser(args.like))
    like = path if os.path.exists(path) else args.like
    found = Tools(base_folder(args.base_path)).find_similar(like, args.top_k, args.kb)
    if args.json:
        return _print_json(asdict(found))
    _print_results(found, "")
    return DONE


def _print_results(found: SearchResults, query: str) -> None:
    for number, hit in enumerate(found.results, 1):
        place = f", {hit.location}" if hit.location else ""
        print(f"{number}. {_paint(_shown(os.path.basename(hit.source_path)), '1')}{_shown(place)}  {hit.score:.2f}")
        print(f"   {_paint(_shown(hit.source_path), '2')}")
        print(f"   {_snippet(hit, query)}")
        if hit.explanation:
            terms = ", ".join(f"{_shown(term)} {part:.2f}" for term, part in hit.explanation.terms.items())
            cosine = "" if hit.explanation.cosine is None else f"; cosine {hit.explanation.cosine:.3f}"
            print(f"   found by {', '.join(hit.explanation.legs)}; terms: {terms}{cosine}")
        print()
    if not found.results:
        print("Nothing found.")
    for note in found.notes:
        _say(f"Note: {note}")


def _snippet(hit: SearchHit, query: str) -> str:
    """Cut out the part of a hit where most of the query's words stand, and mark them."""
    text = _shown(" ".join(hit.content.split()))
    needles = sorted(
        {part for word in re.findall(r"\w+", scrub(query)) for part in _needles(word)}, key=len, reverse=True
    )
    pattern = re.compile("|".join(map(re.escape, needles)) or "(?!)", re.IGNORECASE)
    starts = [match.start() for match in pattern.finditer(text)]
    best = max(
        starts, key=lambda start: sum(start <= other < start + SNIPPET_CHARS - 60 for other in starts), default=0
    )
    low = max(0, best - 40)
    cut = text[low : low + SNIPPET_CHARS]
    marked = pattern.sub(lambda match: _paint(match.group(), "1;33"), cut)
    return f"{'…' if low else ''}{marked}{'…' if low + SNIPPET_CHARS < len(text) else ''}"


def _needles(word: str) -> list[str]:
    """Return what to mark for a query word: the word, and of a Korean one its beginning without particles."""
    return [word] if word.isascii() or len(word) < 3 else [word, word[:-1]]


def _status(args: argparse.Namespace) -> int:
    tools = Tools(base_folder(args.base_path))
    configs, faults = tools.configs(args.kb)
    infos = [tools.index_info(config) for config in configs]
    for fault in faults:
        _say(f"Error: {fault}")
    if args.json:
        _print_json([asdict(info) for info in infos])
        return FAILED if faults else DONE
    for info in infos:
        _print_info(info)
        if args.changes:
            counts = tools.check_changes(info.kb_id).counts
            print(f"  changes: {', '.join(f'{count:,} {name}' for name, count in counts.items() if count) or 'none'}")
    if not infos and not faults:
        print(f"No knowledge bases in {tools.base} yet. Make one: seoga add FOLDER")
    return FAILED if faults else DONE


def _print_info(info: IndexInfo) -> None:
    state = f"{info.status}" + (f", {info.progress['stage']} {info.progress['done']:,} of {info.progress['total']:,}"
                                if info.progress and "total" in info.progress else "")  # fmt: skip
    print(f"{_paint(_shown(info.name), '1')} (id {info.kb_id}): {state}")
    for folder in info.folders:
        print(f"  {_shown(folder)}")
    states = ", ".join(f"{count:,} {name}" for name, count in sorted(info.files_by_state.items()))
    print(f"  {info.total_files:,} files ({states or 'none'}), {info.total_chunks:,} chunks, "
          f"{info.database_bytes / 1024**2:.1f} MB")  # fmt: skip
    for problem in info.problems[:SHOWN_PROBLEMS]:
        print(f"  {problem.state}: {_shown(problem.path)}: {_shown(problem.reason)}")
    if len(info.problems) > SHOWN_PROBLEMS:
        print(f"  … and more: seoga status {info.kb_id} --json")
    for use, facts in info.models.items():
        print(f"  {use.replace('_', ' ')}: {_shown(_facts(facts))}")
    for reason, count in info.skipped.items():
        print(f"  passed over: {count:,}, {_shown(reason)}")
    for note in info.notes:
        print(f"  note: {_shown(note)}")


def _facts(values: dict[str, Any]) -> str:
    """Write facts on one line, those that are nothing left out."""
    parts = [(name.replace("_", " "), value) for name, value in values.items() if value not in ("", 0)]
    return ", ".join(
        f"{name} ({_facts(value)})" if isinstance(value, dict) else f"{name} {value}" for name, value in parts
    )


def _remove(args: argparse.Namespace) -> int:
    config = find_kb(base_folder(args.base_path), args.kb)
    if not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError(f"removing {config.id!r} asks first, and there is no terminal to ask on. Add --yes.")
        _say(f"Forget {config.name} and its index? The documents stay. [y/N] ", end="")
        if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
            return CANCELLED
    forget(config)
    print(f"Removed {_shown(config.name)}. No document was touched.")
    return DONE


# --- this machine ---


def _doctor(args: argparse.Namespace) -> int:
    from .doctor import FAULT, examine

    checks = examine(base_folder(args.base_path))
    faulty = any(check.state == FAULT for check in checks)
    if args.json:
        _print_json({"ok": not faulty, "checks": [asdict(check) for check in checks]})
        return FAILED if faulty else DONE
    for check in checks:
        state = _paint(f"{check.state:7}", {"ok": "32", "missing": "33", "fault": "31"}[check.state])
        print(f"{state} {check.name}: {_shown(homeless(check.seen))}")
        if check.remedy:
            print(f"        {_shown(homeless(check.remedy))}")
    return FAILED if faulty else DONE


def _setup(args: argparse.Namespace) -> int:
    """Change a client's settings, or print what belongs there."""
    variables = {"SEOGA_HOME": str(base_folder(args.base_path))} if args.base_path else {}
    start = start_command()
    if args.print or not args.client:
        client = CLIENTS[args.client or "claude-desktop"]
        _print_json({client.key: {"seoga": entry(client, start, variables)}})
        return DONE if args.print else _usage(f"Name one with --client: {', '.join(CLIENTS)}.")
    client = CLIENTS[args.client]
    change = set_up(client, Path.home(), start=start, variables=variables, undo=args.undo, dry_run=args.dry_run)
    if not change.is_needed:
        print(f"{change.path}: {'no entry of seoga is' if args.undo else 'seoga is already'} there; nothing to change.")
        return DONE
    before, after = (text.splitlines() for text in (change.before, change.after))
    print(f"{change.path}{' would be changed' if args.dry_run else ''}:")
    lines = unified_diff(before, after, lineterm="", n=1)
    print("\n".join(_shown(line) for line in lines if line[:3] not in ("---", "+++")))
    if change.backup:
        print(f"The file as it was: {change.backup}")
    if not args.undo and not args.dry_run:
        print(client.next_step)
    return DONE


def _usage(text: str) -> int:
    _say(text)
    return FAILED


# --- measuring ---


def _eval(args: argparse.Namespace) -> int:
    if args.out and not args.make:
        raise ConfigError("--out is where --make writes. Leave it out, or add --make N.")
    tools = Tools(base_folder(args.base_path))
    config = _the_one(tools, args.kb)
    store = tools.store(config)
    if args.make:
        return _draft_questions(config, store, args)
    questions = read_questions(Path(os.path.expanduser(args.queries)))
    measured = evaluate(config, store, questions, args.modes)
    return _print_json(asdict(measured)) if args.json else _print_figures(measured)


def _the_one(tools: Tools, kb: str | None) -> Config:
    """Return the knowledge base meant; without a name, the only one there is."""
    configs, _ = tools.configs(kb)
    if len(configs) != 1:
        known = ", ".join(config.id for config in configs) or "none yet: `seoga add FOLDER` makes one"
        raise ConfigError(f"which knowledge base? Name it with --kb. Known: {known}.")
    return configs[0]


def _draft_questions(config: Config, store: Store, args: argparse.Namespace) -> int:
    out = Path(os.path.abspath(os.path.expanduser(args.out))) if args.out else None
    if out and out.exists():
        raise ConfigError(f"{out} is there already, and may hold somebody's corrections. Name another file with --out.")
    made = draft(config, store, args.make)
    for note in made.notes[:SHOWN_PROBLEMS]:
        _say(f"Note: {note}")
    if not made.questions:
        raise SeogaError("the model wrote no question that could be understood. Try another contextualizer.model.")
    rows = [{"query": question.query, "relevant": list(question.relevant)} for question in made.questions]
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    if out is None:
        print(text, end="")
        return DONE
    write_atomically(out, text.encode())
    _say(
        f"{len(rows):,} questions in {out}. Read them, correct them, then: seoga eval --kb {config.id} --queries {out}"
    )
    return DONE


def _print_figures(measured: Evaluation) -> int:
    print(f"{measured.questions:,} questions, {measured.documents:,} documents")
    print(f"{'mode':10} recall@1  recall@10  MRR@10  nDCG@10")
    for one in measured.modes:
        if one.reason:
            print(f"{one.mode:10} can't run: {_shown(one.reason)}")
        else:
            print(f"{one.mode:10} {one.recall_at_1:8.3f}  {one.recall_at_10:9.3f}  {one.mrr_at_10:6.3f}  "
                  f"{one.ndcg_at_10:7.3f}")  # fmt: skip
    best = max(measured.modes, key=lambda one: one.ndcg_at_10 or 0.0).mode
    for asked in [one for one in measured.asked if best in one.place and one.place[best] is None][:SHOWN_PROBLEMS]:
        print(f"not among the first ten of {best}: line {asked.line}, {_shown(asked.query)}")
    for note in measured.notes[:SHOWN_PROBLEMS]:
        _say(f"Note: {note}")
    return DONE


# --- for programs ---


def _serve(args: argparse.Namespace) -> int:
    log_to_file(base_folder(args.base_path), "serve")
    log.info("serve, %s, seoga %s", args.transport, VERSION)
    how = {"read_only": args.read_only, "watch": args.watch}
    if args.transport == "http":
        from .web import serve_http

        serve_http(base_folder(args.base_path), host=args.host, port=args.port, token=args.token, **how)
    else:
        serve(base_folder(args.base_path), **how)
    return DONE


def _exec_queue(args: argparse.Namespace) -> int:
    path = Path(args.queue_file).absolute()
    log_to_file(path.parent, "queue")  # started in the background, nobody sees what it says

    def say(text: str) -> None:
        log.info("%s", text)
        _say(text)

    return work_through(Queue(path.parent, path.name), sweep_all=args.sweep_all, say=say)


def _smoke_ocr(args: argparse.Namespace) -> int:
    """Try OCR: exit 0 if there was text, 1 with what is missing if not."""
    from .pages import ocr_state
    from .parsers import Recognition, parse

    def step(done: float, total: float, unit: str) -> None:
        _say(f"page {done:.0f} of {total:.0f}")

    if missing := ocr_state(Recognition().languages):
        raise SeogaError(missing)
    try:
        data = Path(args.pdf).read_bytes()
    except OSError as error:
        raise SeogaError(f"{args.pdf} can't be read: {error.strerror}.") from None
    document = parse(data, args.pdf, recognition=Recognition(step=step))
    for block in document.blocks:
        print(block.text, end="\n\n")
    for note in document.partial:
        _say(f"Note: {note}")
    engine = document.metadata.get("ocr.engine")
    _say(f"Read by {engine}, pages {document.metadata.get('ocr.pages')}." if engine else "No page needed OCR.")
    return DONE if document.blocks else FAILED


def _prune(args: argparse.Namespace) -> int:
    return _print_json(prune_orphans(base_folder(args.base_path)))


# --- printing ---


def _say(text: str, end: str = "\n") -> None:
    """Tell the person something that is no result."""
    print(_shown(text), file=sys.stderr, end=end, flush=True)


def _print_json(value: Any) -> int:
    print(json.dumps(value, ensure_ascii=False, indent=2))
    return DONE


def _shown(text: str) -> str:
    """Make a document's text or name harmless to a terminal: control and direction characters become U+FFFD."""
    return _CONTROL.sub("�", scrub(text))


def _paint(text: str, code: str) -> str:
    """Colour text on a terminal, unless NO_COLOR is set."""
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def _work(arguments: Sequence[str] | None) -> int:
    parser = build_parser()
    args = parser.parse_args(arguments)
    if args.command is None:
        if sys.stdin is None or sys.stdin.isatty():
            parser.print_help()
            return DONE
        args = parser.parse_args(["serve"])
    return int(args.work(args))


def _prepare_output() -> None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the process's life
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a pipe on Windows or under LANG=C could not print Korean
            stream.reconfigure(encoding="utf-8", errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    _prepare_output()
    try:
        try:
            return _work(arguments)
        finally:
            sys.stdout.flush()  # here, where a closed pipe is understood
    except LockedError as error:
        _say(f"seoga: {error}")
        return LOCKED
    except SeogaError as error:
        _say(f"seoga: {error}")
        return FAILED
    except KeyboardInterrupt:
        return CANCELLED
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"seoga: {where}{error.strerror or error}. Check permissions and free space.")
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
