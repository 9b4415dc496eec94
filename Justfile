# `just` lists these recipes; without just: `.tools/bin/uv run just …`

set positional-arguments

uv := env("UV", "uv")
run := uv + " run -q"

# list the recipes
default:
    @just --list --unsorted

# make a knowledge base of a folder and index it; again: index what changed
index FOLDER *ARGS:
    @{{ run }} seoga add "$@"

# search every knowledge base: just search "travel budget" --top-k 3
search QUERY *ARGS:
    @{{ run }} seoga search "$@"

# serve MCP on stdin and stdout
serve *ARGS:
    @{{ run }} seoga serve "$@"

# what is indexed, and what is not
status *ARGS:
    @{{ run }} seoga status "$@"

# measure search by labelled questions (alone: the samples'): just eval --kb KB --queries FILE
eval *ARGS:
    @{{ run }} seoga eval {{ if ARGS == "" { "--kb samples --queries samples/questions.jsonl" } else { '"$@"' } }}

# what works on this machine, and what to do about what doesn't
doctor *ARGS:
    @{{ run }} seoga doctor "$@"

# install the engines that the tests need (OCR, fonts, a voice, a browser), then run them: just test -k chunks
test *ARGS:
    {{ run }} python tests/engines.py
    {{ run }} pytest -n 2 "$@"

# mutate good documents 20,000 times, and see that none hangs or kills the indexer
fuzz *ARGS:
    {{ run }} python bench/fuzz.py --count 20000 "$@"

# how much of documents' words comes through: generated ones, or just fidelity --folder DIR against other programs
fidelity *ARGS:
    {{ run }} python bench/fidelity.py "$@"

# errors of OCR on rendered Korean pages
bench-ocr *ARGS:
    {{ run }} python bench/ocr.py "$@"

# check style and formatting
lint:
    {{ run }} ruff check .
    {{ run }} ruff format --check .

# correct style and formatting
format:
    {{ run }} ruff check --fix .
    {{ run }} ruff format .

# check the types of the package
types: # from a subfolder: in the root, mypy takes our queue.py for the standard module too
    cd tests && {{ run }} mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p seoga

# measure indexing, searching and start-up: ratios to what can't be undercut
bench *ARGS:
    {{ run }} python bench/startup.py
    {{ run }} python bench/keywords.py "$@"

# measure retrieval on labelled sets: just bench-quality FOLDER --model DIR --work DIR
bench-quality *ARGS:
    {{ run }} python bench/quality.py "$@"

# have the MCP project's judges look at the server: its conformance suite, and the Inspector
judges *ARGS:
    {{ run }} python bench/judges.py "$@"

# write the sample documents again (the same bytes)
samples:
    {{ run }} python samples/make_samples.py

# build the wheel and the source archive into dist/
wheel:
    {{ uv }} build -q

# everything that has to pass, on a clean clone
ci:
    .ci/run
