"""How many small faults the tests notice: a sample of a package's mutants. `python scripts/mutants.py client --count 60 --seed 1`.

Mutants are Cosmic Ray's, and calls and assignments that are removed. A place in the source is drawn first, then one of its mutants. Each is
a change to a copy of the source in .cache/mutants, which comes first on the path of the tests and of what they start. It gets the tests
that run its statement, the quickest first, up to a limit of seconds, and the first failure ends them. Mutants that no test could see are
listed in scripts/equivalent_mutants.txt, and not drawn.
"""

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".cache" / "mutants"
EQUIVALENT = ROOT / "scripts" / "equivalent_mutants.txt"
SECONDS_MAX = 20.0
"""Of tests for one mutant, as they took when their lines were recorded."""
TIMEOUT_SECONDS = 30.0
"""More than its tests take: then the mutant hangs, which is noticed."""

PAGES = "test_docs.py::test_generated_pages_are_up_to_date"

PACKAGES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "client": (
        ("client",),
        (
            "unit/client",
            "clients/test_consumer.py",
            "clients/test_consumer_callbacks.py",
            "clients/test_consumer_calls.py",
            "clients/test_consumer_fetching.py",
            "clients/test_consumer_polling.py",
            "clients/test_async_consumer.py",
            "clients/test_fetcher.py",
            "clients/test_admin.py",
            "simulation/test_consumer_membership.py",
        ),
    ),
    "history": (
        ("history",),
        ("unit/history", "scenarios/test_diagnosis_lines.py", "examples/test_history.py", "properties/test_verdicts.py", PAGES),
    ),
    "groups": (("groups",), ("unit/groups", "unit/coordinator", "scenarios", "conformance", "properties/test_groups.py", PAGES)),
    "config": (
        ("config",),
        (
            "unit/config",
            "unit/client/consumer",
            "unit/client/async_consumer/test_arguments.py",
            "unit/client/security",
            "unit/broker/apis/test_describe_configs.py",
            PAGES,
        ),
    ),
    "spark/member": (("spark/group", "spark/source"), ("unit/spark/group", "unit/spark/source")),
    "spark/migration": (("spark/migration",), ("unit/spark/migration",)),
}
"""The folders of the source, and the tests that take part: none that needs a Spark session, Java or a browser."""

COMPILED = {"groups/log/arrow/kernels.py", "groups/log/arrow/loading.py", "spark/migration/source_positions.py"}
"""Machine code, whose lines no tracer sees; properties hold it equal to its reference."""
HEAVY = "numpy numba pyarrow pandas hypothesis kio.schema aiokafka confluent_kafka kafka psutil rich cramjam uvloop google.protobuf"
"""Imported once, before each mutant's process is forked."""

REPLACEMENTS = re.compile(
    r"Replace(BinaryOperator_(Add_Sub|Sub_Add|Sub_BitAnd|Mul_FloorDiv|FloorDiv_Mul|Div_Mul|Mod_FloorDiv|LShift_RShift|RShift_LShift|BitOr_BitAnd"
    r"|BitAnd_BitOr|BitXor_BitAnd)"
    r"|ComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_(LtE|GtE)|LtE_(Lt|Gt)|Gt_(GtE|LtE)|GtE_(Gt|Lt)|Is_IsNot|IsNot_Is)"
    r"|UnaryOperator_Delete_.*|TrueWithFalse|FalseWithTrue|AndWithOr|OrWithAnd|BreakWithContinue|ContinueWithBreak)"
    r"|AddNot|NumberReplacer|ZeroIterationForLoop|ExceptionReplacer"
)
"""Of Cosmic Ray's operators those that a programmer's slip looks like: most others end in a TypeError."""

WITHOUT_EFFECT = re.compile(r"@dataclass\(.*\)|strict=(True|False)|if (not )?TYPE_CHECKING")
"""What only guards against mistakes of a programmer's."""


class RemoveStatement(Operator):
    """A call whose result is not used, or an assignment to an attribute or an item, becomes `pass`."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "simple_stmt":
            statement = node.children[0]
            target = statement.children[0] if statement.type == "expr_stmt" else statement
            is_call = statement.type in ("atom_expr", "power") and statement.children[-1].get_first_leaf().value == "("
            if is_call or (statement.type == "expr_stmt" and target.type in ("atom_expr", "power")):
                yield statement.start_pos, statement.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        statement = node.children[0]
        node.children[0] = parso.python.tree.Keyword("pass", statement.start_pos, statement.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> Sequence[Any]:
        return ()


@dataclass(frozen=True)
class Mutant:
    """One change of one file (its path from src/ottla)."""

    file: str
    line: int
    before: str
    after: str
    source: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n  - {self.before}\n  + {self.after}"


@dataclass(frozen=True)
class Coverage:
    """Which tests run which lines."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run the statement, or the definition that it belongs to; for a table of a module all that use the module."""
        recorded = self.lines.get(mutant.file, {})
        tree = ast.parse((WORK / "src" / "ottla" / mutant.file).read_text())
        around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0)]
        around.sort(key=lambda node: (node.lineno, -(node.end_lineno or 0)))
        if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in around):
            names = self._users(recorded)
        else:
            inner: Any = around[-1]
            is_header = hasattr(inner, "body") and not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            last = max(inner.lineno, inner.body[0].lineno - 1) if is_header else inner.end_lineno
            names = {test for line in range(inner.lineno, last + 1) for test in recorded.get(line, ())}
            if not names and any(line in recorded for line in range(inner.lineno, last + 1)):
                names = self._users(recorded)  # it runs when the module is imported
        return self._quickest(names)

    def _users(self, recorded: Mapping[int, Sequence[str]]) -> set[str]:
        """The tests that run any function of a module, of one without functions all; and those that run the package elsewhere."""
        users = {test for tests in recorded.values() for test in tests} or set(self.seconds)
        return users | (self.seconds.keys() - {test for lines in self.lines.values() for tests in lines.values() for test in tests})

    def _quickest(self, names: set[str]) -> list[str]:
        chosen: list[str] = []
        total = 0.0
        for name in sorted(names, key=lambda name: (self.seconds[name], name)):
            total += self.seconds[name]
            if chosen and total > SECONDS_MAX:
                break
            chosen.append(name)
        return chosen


def copy_source() -> None:
    """Bring the copy of src/ up to date; what did not change keeps its compiled code."""
    source, copy = ROOT / "src", WORK / "src"
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".nbc", ".nbi")}
    for name in wanted:
        content = (source / name).read_bytes()
        if not (copy / name).exists() or (copy / name).read_bytes() != content:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            write(copy / name, content)
    for path in list(copy.rglob("*.py")):
        if path.relative_to(copy) not in wanted:
            path.unlink()


def write(path: Path, content: bytes) -> None:
    """Write a source file so that its compiled code is out of date: that of the same size in the same second would be used."""
    modified = path.stat().st_mtime if path.exists() else time.time()
    path.write_bytes(content)
    os.utime(path, (modified + 2, modified + 2))


def mutants(package: str, count: int, rng: random.Random) -> list[Mutant]:
    """A sample, in the order of the draw."""
    names = [name for name in operator_names() if REPLACEMENTS.fullmatch(name.removeprefix("core/"))]
    operators = [get_operator(name)() for name in names] + [RemoveStatement()]
    places: dict[tuple[str, Any], list[tuple[Operator, int]]] = {}
    for folder in PACKAGES[package][0]:
        for path in sorted((ROOT / "src" / "ottla" / folder).rglob("*.py")):
            file = str(path.relative_to(ROOT / "src" / "ottla"))
            if file in COMPILED:
                continue
            occurrences = [0] * len(operators)
            for node in ast_nodes(get_ast(path.read_text())):
                for number, operator in enumerate(operators):
                    for position in operator.mutation_positions(node):
                        places.setdefault((file, position), []).append((operator, occurrences[number]))
                        occurrences[number] += 1
    order = list(places)
    rng.shuffle(order)
    equivalent = known_equivalents()
    sample: list[Mutant] = []
    for file, position in order:
        mutant = mutated(file, position[0][0], *rng.choice(places[file, position]))
        if mutant is not None and (file, mutant.before, mutant.after) not in equivalent:
            sample.append(mutant)
            if len(sample) == count:
                break
    return sample


def mutated(file: str, line: int, operator: Operator, occurrence: int) -> Mutant | None:
    """The mutant, unless it is no Python or differs in annotations alone."""
    before = (ROOT / "src" / "ottla" / file).read_text()
    after = mutate_code(before, operator, occurrence)
    try:
        if after is None or without_annotations(before) == without_annotations(after):
            return None
    except SyntaxError:
        return None
    old, new = before.splitlines(), after.splitlines()
    changed = next(number for number, (a, b) in enumerate(zip(old, new)) if a != b)
    if WITHOUT_EFFECT.sub("", old[changed]) == WITHOUT_EFFECT.sub("", new[changed]):
        return None
    return Mutant(file, line, old[changed].strip(), new[changed].strip(), after)


def without_annotations(source: str) -> str:
    """The syntax tree as text, without what only a type checker reads."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def known_equivalents() -> set[tuple[str, str, str]]:
    """File, line before, line after. The file has blocks of a path, `- before`, `+ after`; lines with # say why."""
    lines = [line for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#")]
    file, before, found = "", "", set()
    for line in lines:
        if line.startswith("- "):
            before = line[2:]
        elif line.startswith("+ "):
            found.add((file, before, line[2:]))
        else:
            file = line
    return found


def in_child(log: Path, arguments: Sequence[str], plugins: Sequence[Any] = ()) -> int:
    """Start pytest in a process of its own group, on the copy of the source; its process id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, str(WORK / "src"))
    os.environ["PYTHONPATH"] = str(WORK / "src")
    os.environ["CI"] = "1"  # the same examples of Hypothesis in each run, none kept
    status = 99
    try:
        import pytest

        status = int(pytest.main(["-p", "no:cacheprovider", "-n", "0", "-m", "not kafka and not spark", *arguments], plugins=list(plugins)))
    finally:
        os._exit(status)


def wait(pid: int, seconds: float) -> int | None:
    """The exit status; None when time ran out. What the process started ends with it."""
    ends = time.monotonic() + seconds
    status: int | None = None
    while time.monotonic() < ends:
        done, result = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(result)
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
    return status


class LineRecorder:
    """A plugin of pytest: which lines each test runs, and how long it takes."""

    def __init__(self, folders: Sequence[str], out: Path) -> None:
        self._folders = [str(WORK / "src" / "ottla" / folder) for folder in folders]
        self._out = out
        self._seconds: dict[str, float] = {}
        self._coverage: Any = None

    def pytest_configure(self) -> None:
        import coverage

        self._coverage = coverage.Coverage(data_file=None, source=self._folders, config_file=False)
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self._seconds[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._seconds[nodeid] = time.monotonic() - self._seconds[nodeid]
        self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {}
        for file in data.measured_files():
            found = {line: [name for name in names if name] for line, names in data.contexts_by_lineno(file).items()}
            lines[str(Path(file).relative_to(WORK / "src" / "ottla"))] = found
        self._out.write_text(json.dumps({"seconds": self._seconds, "lines": lines}))


def coverage_of(package: str, is_kept: bool) -> Coverage:
    """Run the package's tests, unless nothing changed since the last time, or what was recorded then is to be used (`is_kept`)."""
    folders, tests = PACKAGES[package]
    out = WORK / f"{package.replace('/', '-')}.json"
    paths = [ROOT / "tests" / test for test in tests]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [Path(str(path).partition("::")[0])])]
    files += [file for folder in folders for file in (ROOT / "src" / "ottla" / folder).rglob("*.py")]
    if not out.exists() or (not is_kept and out.stat().st_mtime < max(file.stat().st_mtime for file in files)):
        log = out.with_suffix(".log")
        status = wait(in_child(log, [str(path) for path in paths], [LineRecorder(folders, out)]), 3_600)
        if status != 0:
            out.unlink(missing_ok=True)
            raise SystemExit(f"The tests of {package} fail without any mutant (status {status}): see {log}.")
    recorded = json.loads(out.read_text())
    lines = {file: {int(line): names for line, names in found.items()} for file, found in recorded["lines"].items()}
    return Coverage(recorded["seconds"], lines)


def try_mutant(mutant: Mutant, coverage: Coverage, log: Path) -> str:
    """`noticed`, `survived`, or `no test runs it`."""
    tests = coverage.tests_of(mutant)
    if not tests:
        return "no test runs it"
    path = WORK / "src" / "ottla" / mutant.file
    original = path.read_bytes()
    write(path, mutant.source.encode())
    try:
        seconds = 2 * sum(coverage.seconds[test] for test in tests)
        status = wait(in_child(log, ["-x", "--no-header", "--tb=line", *tests]), seconds + TIMEOUT_SECONDS)
    finally:
        write(path, original)
    return "survived" if status == 0 else "noticed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="leave out this many of the sample")
    parser.add_argument("--keep", action="store_true", help="use the lines that were recorded last, whatever has changed since")
    options = parser.parse_args()
    os.nice(15 - os.nice(0))
    WORK.mkdir(parents=True, exist_ok=True)
    copy_source()
    for name in HEAVY.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    coverage = coverage_of(options.package, options.keep)
    sample = mutants(options.package, options.count, random.Random(options.seed))[options.skip :]
    results: dict[str, int] = {"noticed": 0, "survived": 0, "no test runs it": 0}
    for mutant in sample:
        result = try_mutant(mutant, coverage, WORK / "mutant.log")
        results[result] += 1
        if result != "noticed":
            print(f"{result}: {mutant}", flush=True)
    total = sum(results.values())
    print(f"{options.package}: {results['noticed']} of {total} noticed ({results['noticed'] / total:.0%}), seed {options.seed};", end=" ")
    print(f"{results['survived']} survived, {results['no test runs it']} run by no test")


if __name__ == "__main__":
    main()
