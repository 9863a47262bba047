"""docs/conformance.md: Apache Kafka's own tests of groups, each with the test here that shows the same, or the reason why there is none.

The names are in tests/conformance/<class>.txt by category, reasons in left_out.txt, remarks in notes.txt. A scenario names them in
lines `# kafka: Class.test, Class.test`, a Python test in `@pytest.mark.conformance("Class.test")`. This script runs no test.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "conformance"
LEFT_OUT, NOTES = "left_out.txt", "notes.txt"
SCENARIO_LINE = "# kafka:"
MARKER = "conformance"
NOT_SERVED = "not served"
"""Prefix of reasons that put a test out of scope."""


@dataclass(frozen=True)
class Names:
    """The tests of one class: their path in Apache Kafka, and their names by category."""

    source: str
    categories: dict[str, list[str]]


@dataclass
class Conformance:
    """The tests by name: `links` are (text, path) of the tests here, `reasons` are why there is none."""

    classes: dict[str, Names] = field(default_factory=dict)
    links: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    whole_categories: dict[tuple[str, str], str] = field(default_factory=dict)
    """Categories that are out of scope as a whole, with the reason."""
    problems: list[str] = field(default_factory=list)
    """Errors in names, links and reasons; empty if there are none."""


def load() -> Conformance:
    """Read names, links, reasons and notes, and compare them."""
    found = Conformance()
    for path in sorted(DATA.glob("*.txt")):
        if path.name not in (LEFT_OUT, NOTES):
            found.classes[path.name.removesuffix(".txt")] = _read_names(path)
    known = {f"{kind}.{name}" for kind, names in found.classes.items() for listed in names.categories.values() for name in listed}
    for name, text, where in sorted({*_scenario_links(), *_marker_links()}):
        found.links.setdefault(name, []).append((text, where))
        if name not in known:
            found.problems.append(f"{where} names {name}, which Apache Kafka does not have")
    for pattern, reason in _pairs(LEFT_OUT):
        _leave_out(found, known, pattern, reason)
    for name, note in _pairs(NOTES):
        found.notes[name] = note
        if name not in known:
            found.problems.append(f"{NOTES} names {name}, which Apache Kafka does not have")
    found.problems += [f"{name} is neither linked nor left out" for name in sorted(known) if _is_missing(found, name)]
    return found


def _is_missing(found: Conformance, name: str) -> bool:
    return name not in found.links and name not in found.reasons


def _read_names(path: Path) -> Names:
    source, category = "", ""
    categories: dict[str, list[str]] = {}
    for line in filter(None, path.read_text().splitlines()):
        if line.startswith("#"):
            source = line.removeprefix("#").strip()
        elif line.startswith("["):
            category = line.strip("[]")
            categories[category] = []
        else:
            categories[category].append(line)
    return Names(source, categories)


def _pairs(name: str) -> Iterator[tuple[str, str]]:
    path = DATA / name
    for line in path.read_text().splitlines() if path.exists() else ():
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(" | ")
            yield pattern.strip(), reason.strip()


def _leave_out(found: Conformance, known: set[str], pattern: str, reason: str) -> None:
    """`Class / category` leaves out a category, `Class.name` names; both may have stars."""
    kind, of_category, category = pattern.partition(" / ")
    if of_category:
        names = found.classes[kind].categories if kind in found.classes else {}
        matched = [each for each in names if fnmatchcase(each, category)]
        for each in matched:
            full_names = [f"{kind}.{name}" for name in names[each]]
            left = [name for name in full_names if name not in found.links]
            found.reasons |= dict.fromkeys(left, reason)
            if left == full_names:
                found.whole_categories[kind, each] = reason
    else:
        matched = [name for name in known if fnmatchcase(name, pattern)]
        found.reasons |= dict.fromkeys(matched, reason)
        found.problems += [f"{name} is left out by {pattern} and linked" for name in matched if name in found.links]
    if not matched or not reason:
        found.problems.append(f"{LEFT_OUT}: {pattern} matches nothing, or has no reason")


def _scenario_links() -> Iterator[tuple[str, str, str]]:
    folder = ROOT / "tests" / "scenarios"
    for path in folder.rglob("*.txt"):
        for line in path.read_text().splitlines():
            if line.startswith(SCENARIO_LINE):
                for name in line.removeprefix(SCENARIO_LINE).split(","):
                    yield name.strip(), str(path.relative_to(folder).with_suffix("")), str(path.relative_to(ROOT))


def _marker_links() -> Iterator[tuple[str, str, str]]:
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text()
        if f"mark.{MARKER}" in text:
            for owner, name in _marked(ast.parse(text)):
                yield name, owner or path.stem, str(path.relative_to(ROOT))


def _marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(test, name) for the names in every marker; a marker that is not on a function belongs to the file."""
    for statement in tree.body:
        owner = statement.name if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARKER:
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        yield owner, str(argument.value)


def page() -> str:
    """The page: totals, then a table for every class and category."""
    found = load()
    parts = [
        "# Apache Kafka's tests of groups, and Ottla's\n\n",
        "Each row is a test of Apache Kafka, with the scenario or test here that shows the same behaviour, or the reason why "
        "there is none. The Java and the Scala coordinator share most tests under almost the same names: one scenario then covers "
        "both, and if they expect different results the Java one (Apache Kafka 4.3) is authoritative. Names, reasons and remarks are in "
        "[tests/conformance](../tests/conformance).\n\n",
        *_totals(found),
    ]
    for kind, names in found.classes.items():
        parts.append(f"\n## {kind}\n\n{names.source}\n")
        for category, listed in names.categories.items():
            parts.append(f"\n### {category} ({len(listed)})\n\n")
            whole = found.whole_categories.get((kind, category))
            parts += [f"Left out: {whole}.\n"] if whole else _table(found, kind, listed)
    return "".join(parts)


def _table(found: Conformance, kind: str, listed: list[str]) -> list[str]:
    return ["| Apache Kafka's test | here |\n|---|---|\n", *(f"| {name} | {_here(found, f'{kind}.{name}')} |\n" for name in listed)]


def _here(found: Conformance, name: str) -> str:
    links = ", ".join(f"[{text}](../{path})" for text, path in found.links.get(name, ()))
    note = found.notes.get(name)
    text = links or f"left out: {found.reasons.get(name, 'unknown')}"
    return f"{text}. {note}" if note else text


def _totals(found: Conformance) -> list[str]:
    rows, sums = [], [0] * 5
    for kind, names in found.classes.items():
        every = [f"{kind}.{name}" for listed in names.categories.values() for name in listed]
        out = sum(found.reasons.get(name, "").startswith(NOT_SERVED) for name in every)
        linked = sum(name in found.links for name in every)
        counts = [len(every), out, len(every) - out, linked, len(every) - out - linked]
        sums = [total + count for total, count in zip(sums, counts, strict=True)]
        rows.append(f"| [{kind}](#{_anchor(kind)}) | " + " | ".join(map(str, counts)) + " |\n")
    head = "| class | tests | not served | in scope | shown here | left out |\n|---|---|---|---|---|---|\n"
    return [head, *rows, "| **all** | " + " | ".join(f"**{total}**" for total in sums) + " |\n"]


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")
