"""How many small faults the tests notice: a sample of a package's mutants. `python scripts/mutants.py client --count 60 --seed 1`.

Mutants are Cosmic Ray's, and calls and assignments that are removed. A place in the source is drawn first, then one of its mutants. Each is
a change to a copy of the source in .cache/mutants, which comes first on the path of the tests and of what they start. It gets the tests
that run its statement, those of its own module first, then the quickest, up to a limit of seconds; the first failure ends them. The tests
are collected once: each mutant gets a fork of that process, in which the code of the functions that differ is replaced. What runs at import
is tried in a new process. Mutants that no test could see are listed in scripts/equivalent_mutants.txt, and not drawn.
"""

import argparse
import ast
import contextlib
import gc
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
from types import CodeType, FunctionType
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
WORK = ROOT / ".cache" / "mutants"
EQUIVALENT = ROOT / "scripts" / "equivalent_mutants.txt"
NOTICING = WORK / "noticing.txt"
"""The test that failed last."""
RESULTS: Mapping[int | None, str] = {0: "survived", None: "hangs"}
UNFIT = 77
"""The exit status of a fork that cannot take a mutant."""
SECONDS_MAX = 8.0
"""Of tests for one mutant: CPU time, as they took when their lines were recorded."""
TIMEOUT_SECONDS = 90.0
"""More than five times of what its tests take: then the mutant hangs, which is noticed."""

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

LONG = {"test_interrupts.py"}
"""Test files that repeat something for many seconds, and wait for other threads, which a recorder of lines slows down."""

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
            names = {test for line in range(inner.lineno, last + 1) for test in recorded.get(line, ()) if test}
            if not names and any(line in recorded for line in range(inner.lineno, last + 1)):
                names = self._users(recorded)  # it runs when the module is imported
        return self._chosen(names, Path(mutant.file).stem.removeprefix("_"))

    def runs_at_import(self, mutant: Mutant) -> bool:
        """Whether the line runs outside of tests, too: what it made then is there already."""
        return "" in self.lines.get(mutant.file, {}).get(mutant.line, ())

    def _users(self, recorded: Mapping[int, Sequence[str]]) -> set[str]:
        """The tests that run any function of a module, of one without functions all; and those that run the package elsewhere."""
        users = {test for tests in recorded.values() for test in tests if test} or set(self.seconds)
        return users | (self.seconds.keys() - {test for lines in self.lines.values() for tests in lines.values() for test in tests})

    def _chosen(self, names: set[str], module: str) -> list[str]:
        chosen: list[str] = []
        total = 0.0
        for name in sorted(names, key=lambda name: (f"/test_{module}.py::" not in name, self.seconds[name], name)):
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
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [ast.Pass() if isinstance(each, ast.AnnAssign) and each.value is None else each for each in body]
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
    into_log(log)
    sys.path.insert(0, str(WORK / "src"))
    os.environ["PYTHONPATH"] = str(WORK / "src")
    os.environ["CI"] = "1"  # the same examples of Hypothesis in each run, none kept
    os.environ["OTTLA_CONSUMER_SEEDS"] = "16"
    status = 99
    try:
        import pytest

        status = int(pytest.main(["-p", "no:cacheprovider", "-n", "0", "-m", "not kafka and not spark", *arguments], plugins=list(plugins)))
    finally:
        os._exit(status)


def into_log(log: Path) -> None:
    """Make a process of its own group of this one, which writes into a file and reads nothing."""
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def wait(pid: int, seconds: float) -> int | None:
    """The exit status; None when time ran out, but for what it waited for a CPU. What the process started ends with it."""
    ends = time.monotonic() + seconds
    status: int | None = None
    while time.monotonic() < ends + waited_for_cpu(pid):
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


def waited_for_cpu(pid: int) -> float:
    """The seconds that a process could have run and did not, as Linux counts them: those of its thread with the most."""
    waited = [0]
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            waited.append(int(each.read_text().split()[1]))
    return max(waited) / 1e9


class LineRecorder:
    """A plugin of pytest: which lines each test runs, and its CPU time."""

    def __init__(self, folders: Sequence[str], out: Path) -> None:
        self._folders = [str(WORK / "src" / "ottla" / folder) for folder in folders]
        self._out = out
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage: Any = None

    def pytest_configure(self) -> None:
        import coverage

        self._coverage = coverage.Coverage(data_file=None, source=self._folders, config_file=False)
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self._seconds[nodeid] = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._seconds[nodeid] = time.process_time() - self._seconds[nodeid]
        self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {}
        for file in data.measured_files():
            found = {
                line: [name for name in names if not name or name in self._seconds] for line, names in data.contexts_by_lineno(file).items()
            }
            lines[str(Path(file).relative_to(WORK / "src" / "ottla"))] = found
        self._out.write_text(json.dumps({"seconds": self._seconds, "lines": lines, "failed": sorted(self._failed)}))


def coverage_of(package: str, is_kept: bool) -> Coverage:
    """Run the package's test files that changed since the last time, all if its source did (unless `is_kept`)."""
    folders, tests = PACKAGES[package]
    out = WORK / f"{package.replace('/', '-')}.json"
    recorded_at = out.stat().st_mtime if out.exists() else 0.0
    sources = [file for folder in folders for file in (ROOT / "src" / "ottla" / folder).rglob("*.py")]
    if not is_kept and recorded_at < max(file.stat().st_mtime for file in sources):
        recorded_at = 0.0
    paths = [path for test in tests for path in (sorted((ROOT / "tests" / test).rglob("test_*.py")) or [ROOT / "tests" / test])]
    paths = [path for path in paths if path.name not in LONG]
    paths = [path for path in paths if recorded_at < Path(str(path).partition("::")[0]).stat().st_mtime]
    old: dict[str, Any] = json.loads(out.read_text()) if recorded_at else {"seconds": {}, "lines": {}, "failed": []}
    if paths:
        new_out, log = out.with_suffix(".new"), out.with_suffix(".log")
        status = wait(in_child(log, ["-v", *map(str, paths)], [LineRecorder(folders, new_out)]), 3_600)
        if status not in (0, 1):
            raise SystemExit(f"The tests of {package} cannot run (status {status}): see {log}.")
        again = {str(path.relative_to(ROOT)).partition("::")[0] for path in paths}
        old = joined(old, json.loads(new_out.read_text()), again)
        new_out.unlink()
        out.write_text(json.dumps(old))
    failed = set(old["failed"])
    for name in old["failed"]:
        print(f"takes no part, since it fails without any mutant: {name}", flush=True)
    seconds = {name: each for name, each in old["seconds"].items() if name not in failed}
    lines = {
        file: {int(line): [name for name in names if not name or name in seconds] for line, names in found.items()}
        for file, found in old["lines"].items()
    }
    return Coverage(seconds, lines)


def joined(old: Any, new: Any, again: set[str]) -> Any:
    """What was recorded, with the test files that ran again replaced."""

    def kept(names: Sequence[str]) -> list[str]:
        return [name for name in names if name.partition("::")[0] not in again]

    seconds = {name: old["seconds"][name] for name in kept(list(old["seconds"]))} | new["seconds"]
    lines: dict[str, dict[str, list[str]]] = {}
    for file in old["lines"].keys() | new["lines"].keys():
        before, after = old["lines"].get(file, {}), new["lines"].get(file, {})
        lines[file] = {line: kept(before.get(line, ())) + after.get(line, []) for line in before.keys() | after.keys()}
    return {"seconds": seconds, "lines": lines, "failed": kept(old["failed"]) + new["failed"]}


class Trials:
    """A plugin of pytest: mutants instead of one run of the tests. The result of each is a line of `out`: its number, and the result."""

    def __init__(self, sample: Sequence[Mutant], coverage: Coverage, out: Path) -> None:
        self._sample = sample
        self._coverage = coverage
        self._out = out
        self._failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failed = report.nodeid

    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        live: dict[str, dict[Any, list[FunctionType]]] = {}
        gc.unfreeze()  # tests/conftest.py has frozen what was imported
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                live.setdefault(each.__code__.co_filename, {}).setdefault(place(each.__code__), []).append(each)
        gc.freeze()
        with self._out.open("w") as out:
            for number, mutant in enumerate(self._sample):
                path = WORK / "src" / "ottla" / mutant.file
                original = path.read_bytes()
                codes = changed_functions(original.decode(), mutant.source, str(path))
                if codes is None or self._coverage.runs_at_import(mutant):
                    continue
                tests = self._coverage.tests_of(mutant)
                if not tests:
                    out.write(f"{number} no test runs it\n")
                    continue
                functions = [(function, code) for code in codes for function in live.get(str(path), {}).get(place(code), ())]
                if not functions:
                    continue
                write(path, mutant.source.encode())
                status = self._status(functions, [items[name] for name in tests if name in items])
                write(path, original)
                while status == 1 and self._status((), [items[noticing := NOTICING.read_text()]]) != 0:
                    tests.remove(noticing)  # it fails without the mutant, too, as on a machine without time
                    write(path, mutant.source.encode())
                    status = self._status(functions, [items[name] for name in tests if name in items])
                    write(path, original)
                if status != UNFIT:
                    out.write(f"{number} {RESULTS.get(status, 'noticed')}\n")
                    out.flush()
        return True

    def _status(self, functions: Sequence[tuple[FunctionType, CodeType]], items: Sequence[Any]) -> int | None:
        pid = os.fork()
        if not pid:
            self._try(functions, items)
        return wait(pid, 5 * sum(self._coverage.seconds[item.nodeid] for item in items) + TIMEOUT_SECONDS)

    def _try(self, functions: Sequence[tuple[FunctionType, CodeType]], items: Sequence[Any]) -> None:
        status = UNFIT
        try:
            into_log(WORK / "mutant.log")
            for function, code in functions:
                function.__code__ = code  # a ValueError where a closure has other variables
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    break
            NOTICING.write_text(self._failed)
            status = 1 if self._failed else 0
        finally:
            os._exit(status)


def changed_functions(before: str, after: str, path: str) -> list[CodeType] | None:
    """The new code of the functions that differ, and of those around them; None if anything else differs."""
    codes: list[CodeType] = []

    def compare(old: CodeType, new: CodeType) -> bool:
        """Whether only functions differ."""
        inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)]
        if (old.co_flags & new.co_flags & CO_OPTIMIZED) and not same(old, new):
            codes.append(new)
            codes.extend(each for code in inner[1] for each in functions_of(code))
            return True
        if len(inner[0]) != len(inner[1]) or shallow(old) != shallow(new):
            return False
        return all(compare(*pair) for pair in zip(*inner, strict=True))

    return codes if compare(compile(before, path, "exec"), compile(after, path, "exec")) else None


CO_OPTIMIZED = 1
"""Of a function's code, not of a module's or a class body's."""


def shallow(code: CodeType) -> Any:
    """What has to be equal for code to do the same, but for that of the functions and classes in it."""
    consts = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_name, code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_exceptiontable


def same(old: CodeType, new: CodeType) -> bool:
    """Whether all the code is equal."""
    inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new)]
    return len(inner[0]) == len(inner[1]) and shallow(old) == shallow(new) and all(same(*pair) for pair in zip(*inner, strict=True))


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """The code and that in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from functions_of(each)


def place(code: CodeType) -> tuple[str, int]:
    """Where the code is in its file."""
    return code.co_qualname, code.co_firstlineno


def try_again(mutant: Mutant, coverage: Coverage) -> str:
    """Try a mutant in a process that imports everything."""
    tests = coverage.tests_of(mutant)
    if not tests:
        return "no test runs it"
    path = WORK / "src" / "ottla" / mutant.file
    original = path.read_bytes()
    write(path, mutant.source.encode())
    try:
        seconds = 5 * sum(coverage.seconds[test] for test in tests)
        status = wait(in_child(WORK / "mutant.log", ["-x", "--no-header", "--tb=line", *tests]), seconds + TIMEOUT_SECONDS)
    finally:
        write(path, original)
    return RESULTS.get(status, "noticed")


def results_of(package: str, sample: Sequence[Mutant], coverage: Coverage) -> dict[int, str]:
    """Of each mutant `noticed`, `hangs`, `survived`, or `no test runs it`."""
    out = WORK / f"{package.replace('/', '-')}-results.txt"
    tests = [str(ROOT / test) for test in sorted({name.partition("::")[0] for name in coverage.seconds})]
    status = wait(in_child(out.with_suffix(".log"), tests, [Trials(sample, coverage, out)]), 36_000)
    if status != 0:
        raise SystemExit(f"The tests of {package} cannot be collected (status {status}): see {out.with_suffix('.log')}.")
    results = {int(number): result for number, _, result in (line.partition(" ") for line in out.read_text().splitlines())}
    for number, mutant in enumerate(sample):
        if number not in results:
            results[number] = try_again(mutant, coverage)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", choices=PACKAGES)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0, help="leave out this many of the sample")
    parser.add_argument("--keep", action="store_true", help="use the lines that were recorded last, whatever has changed since")
    options = parser.parse_args()
    os.nice(max(0, 10 - os.nice(0)))
    WORK.mkdir(parents=True, exist_ok=True)
    copy_source()
    for name in HEAVY.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    coverage = coverage_of(options.package, options.keep)
    sample = mutants(options.package, options.count, random.Random(options.seed))[options.skip :]
    results = results_of(options.package, sample, coverage)
    for number, mutant in enumerate(sample):
        if results[number] != "noticed":
            print(f"{results[number]}: {mutant}")
    counts = {result: list(results.values()).count(result) for result in ("noticed", "hangs", "survived", "no test runs it")}
    counts["noticed"] += counts["hangs"]
    print(
        f"{options.package}: {counts['noticed']} of {len(sample)} noticed ({counts['noticed'] / len(sample):.0%}), seed {options.seed};",
        end=" ",
    )
    print(f"{counts['survived']} survived, {counts['no test runs it']} run by no test")


if __name__ == "__main__":
    main()
