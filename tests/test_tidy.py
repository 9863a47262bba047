"""Linter, formatter and type checker find nothing, and each source file says what it does."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "src" / "ottla").rglob("*.py"))


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


def test_files_begin_with_a_docstring() -> None:
    """By their text: syntax trees of all files would take seconds. Files without any code need none."""
    texts = {path: path.read_text() for path in FILES}
    assert [str(path) for path, text in texts.items() if text and not text.startswith(('"""', 'r"""'))] == []


def test_nothing_is_left_to_do_without_an_issue() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX)\b")
    left = [f"{path}:{number}" for path in FILES for number, line in enumerate(path.read_text().splitlines(), 1) if marker.search(line)]
    assert left == []
