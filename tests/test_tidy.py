"""Linter, formatter and type checker find nothing; files and functions have a size limit; each source file has its test file."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ottla"
FILES = sorted(SOURCE.rglob("*.py"))
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

# Source files without a test file of their own name: the reason is beside each. May only shrink.
UNMIRRORED = {
    "__main__.py": "one call; tests/clients run it",
    "core/model.py": "values without behaviour",
    "core/errors.py": "values without behaviour; tests/unit/core/test_errors.py would only repeat them",
    "core/groups/commands.py": "values without behaviour",
    "core/groups/effects.py": "values without behaviour",
}


def run(*command: str) -> None:
    tool = Path(sys.executable).with_name(command[0])
    result = subprocess.run([str(tool), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_ruff_finds_nothing() -> None:
    run("ruff", "check", ".")


def test_everything_is_formatted() -> None:
    run("ruff", "format", "--check", ".")


def test_mypy_finds_nothing() -> None:
    run("mypy")


def test_files_and_functions_have_a_size_limit_and_begin_with_a_docstring() -> None:
    """One test: a thousand files are read in two seconds, and a thousand tests cost as much again."""
    assert [problem for path in FILES for problem in problems_of(path)] == []


def problems_of(path: Path) -> Iterator[str]:
    name, text = path.relative_to(SOURCE), path.read_text()
    if text.count("\n") > FILE_LINES_MAX:
        yield f"{name} has more than {FILE_LINES_MAX} lines: split it, a file is one thing"
    tree = ast.parse(text)
    if tree.body and not ast.get_docstring(tree):
        yield f"{name} does not begin with a docstring that says what it does"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            docstring = ast.get_docstring(node, clean=False)
            lines = node.end_lineno - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)
            if lines > FUNCTION_LINES_MAX:
                yield f"{name}: {node.name} has {lines} lines: a function fits a screen"


def test_every_source_file_has_its_test_file() -> None:
    missing = []
    for path in FILES:
        name = path.relative_to(SOURCE)
        if path.name == "__init__.py" or str(name) in UNMIRRORED:
            continue
        folder = ROOT / "tests" / "unit" / name.parent
        tests = [folder / f"test_{name.stem.lstrip('_')}.py", folder / f"test_{name.parent.name}_{name.stem}.py"]
        if not any(test.exists() for test in tests):
            missing.append(str(name))
    assert missing == []


def test_the_list_of_exceptions_has_no_dead_entries() -> None:
    assert [name for name in UNMIRRORED if not (SOURCE / name).exists()] == []


def test_nothing_is_left_to_do_without_an_issue() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX)\b")
    found = [f"{path}:{number}" for path in FILES for number, line in enumerate(path.read_text().splitlines(), 1) if marker.search(line)]
    assert found == []


# Words that this code used for things that have ordinary names. Matched whole or as a part of a snake_case name; may only grow.
# `is_ill` stays: it is a key of the JSON that /health and `ottla doctor --json` print.
REPLACED = {
    "anew": "again, or re-created",
    "anybody": "name the subject",
    "at hand": "available",
    "befall": "happen",
    "befalls": "happens",
    "collector_rest": "gc_paused",
    "dice": "random, rng",
    "everybody": "each member, all clients",
    "for ever": "forever, endlessly",
    "glance": "snapshot",
    "goes_last": "move_to_back",
    "heard": "received, noticed",
    "hears": "receives, notices",
    "holds_up": "depends_on_pending",
    "hurt": "kill",
    "(?<!is_)ill": "unhealthy",
    "is_odd": "needs_request_check",
    "is_told": "record_sent",
    "lag_picture": "lag_chart",
    "lane": "implementation, backend",
    "lanes": "implementations, backends",
    "let_go": "remove_member, release",
    "log_fold": "log_reducer",
    "mends": "fixes",
    "nobody": "no client, no member",
    "silence_of": "liveness_evidence",
    "somebody": "name the subject",
    "survey": "scan",
    "tells": "reports, shows",
    "thereby": "so",
    "vain": "say what was not found",
    "whoever": "the caller, a client",
}
PROSE = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "changes").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
CODE = [path for folder in ("src", "tests", "benchmarks", "scripts") for path in (ROOT / folder).rglob("*.py")]


def test_replaced_words_do_not_come_back() -> None:
    words = re.compile(rf"(?<![A-Za-z])({'|'.join(REPLACED)})(?![A-Za-z])", re.IGNORECASE)
    found = []
    for path in {*PROSE, *CODE} - {Path(__file__)}:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {word}" for word in words.findall(line)]
    assert found == [], f"{found}; better: {REPLACED}"
