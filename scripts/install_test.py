"""Install the built wheel into fresh virtual environments, one for each row of a table, and do there what a user does first.

python scripts/install_test.py [--row TEXT] [--json] [--list]

A row is a Python version, an extra, and the oldest or the newest versions of the direct dependencies that the wheel's metadata allows; one
more for the oldest patch release of each Python, for what its standard library got later. The exit status is 1 when a check fails. A Python
or a Java that is missing on this machine is a reason to skip, and printed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path

import install_checks
from install_checks import CheckFailed, Environment, Skipped
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
OLDEST_PATCHES = ("3.11.2", "3.12.0", "3.13.0")
EXTRAS = ("bare", "arrow", "spark")
OLDEST, NEWEST = "oldest", "newest"
INSTALL_S_MAX = 1_200
WIDTH = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One virtual environment."""

    python: str
    extra: str
    versions: str

    def __str__(self) -> str:
        return f"{self.python} {self.extra} {self.versions}"


@dataclass(slots=True)
class Result:
    """What came of a row: its checks as name -> "ok", "skipped: why" or "FAILED: why"."""

    row: Row
    checks: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether any check failed."""
        return any(outcome.startswith("FAILED") for outcome in self.checks.values())


ROWS = [Row(python, extra, versions) for extra in EXTRAS for versions in (OLDEST, NEWEST) for python in PYTHONS]
ROWS += [Row(python, "spark", NEWEST) for python in OLDEST_PATCHES]


def oldest_versions(requirements: Iterable[str], *, python: str, extra: str) -> list[str]:
    """A constraint `name==version` for each direct dependency: the lower bound that the metadata states. Raises ValueError without one."""
    found = []
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python, "extra": extra}):
            continue
        bounds = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
        if not bounds:
            raise ValueError(f"{text}: states no oldest version")
        found.append(f"{requirement.name}=={bounds[0]}")
    return sorted(found)


def requirements_of(wheel: Path) -> list[str]:
    """The dependencies in a wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []


def find_python(version: str) -> Path | None:
    """An interpreter of this version, "3.12" or "3.12.0": the one that runs this, one on the PATH, or one that pyenv keeps."""
    name = "python" + ".".join(version.split(".")[:2])
    on_path = [path for folder in os.get_exec_path() if (path := Path(folder) / name).is_file()]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    ask = "import sys, ensurepip, venv; print('%d.%d.%d.' % sys.version_info[:3])"
    for candidate in (Path(sys.executable), *on_path, *sorted(pyenv.glob(f"{version}*/bin/python"))):
        done = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, check=False)
        if done.stdout.startswith(f"{version}."):
            return candidate
    return None


def build_wheel(directory: Path) -> Path:
    """The wheel of this checkout."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--wheel-dir",
        str(directory),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    [wheel] = directory.glob("ottla-*.whl")
    return wheel


def install(row: Row, wheel: Path, python: Path, directory: Path) -> Environment:
    """A new environment with the wheel and the row's extra and versions. Raises CheckFailed with pip's words."""
    subprocess.run([python, "-m", "venv", str(directory / "venv")], check=True)
    environment = Environment(row.python, row.extra, directory)
    options = ["--disable-pip-version-check", "--quiet"]
    if row.versions == OLDEST:
        extra = "" if row.extra == "bare" else row.extra
        constraints = directory / "constraints.txt"
        constraints.write_text("\n".join(oldest_versions(requirements_of(wheel), python=row.python, extra=extra)))
        options += ["--constraint", str(constraints)]
    what = str(wheel) if row.extra == "bare" else f"{wheel}[{row.extra}]"
    environment.python("-m", "pip", "install", *options, what, seconds_max=INSTALL_S_MAX)
    environment.python("-m", "pip", "check")
    # Beside the environment, not in it: the checks of what is missing must find it missing.
    client = ["pytest"] if row.extra == "spark" else ["pytest", "confluent-kafka"]
    target = ["--target", str(environment.tools), "--disable-pip-version-check", "--quiet"]
    environment.python("-m", "pip", "install", *target, *client, seconds_max=INSTALL_S_MAX)
    return environment


def run_row(row: Row, wheel: Path, directory: Path) -> Result:
    """Install and check one row; its environment is removed."""
    result, started_s = Result(row), time.monotonic()
    python = find_python(row.python)
    checks: dict[str, Callable[[Environment], None]] = dict(install_checks.checks(row.extra))
    try:
        if python is None:
            result.checks = dict.fromkeys(["install", *checks], f"skipped: no Python {row.python} with venv on this machine")
            return result
        made: list[Environment] = []
        run_check(result, "install", lambda: made.append(install(row, wheel, python, directory)))
        for name, check in checks.items() if made else ():
            run_check(result, name, lambda check=check: check(made[0]))  # type: ignore[misc]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        result.seconds = round(time.monotonic() - started_s, 1)
    return result


def run_check(result: Result, name: str, check: Callable[[], None]) -> None:
    """Do one check, keep what came of it, and say so."""
    started_s = time.monotonic()
    try:
        check()
    except Skipped as reason:
        outcome = f"skipped: {reason}"
    except (CheckFailed, OSError, subprocess.SubprocessError) as failure:
        outcome = f"FAILED: {failure}"
    else:
        outcome = "ok"
    result.checks[name] = outcome
    say(f"    {name:<10}{time.monotonic() - started_s:6.1f} s  {outcome}")


def say(line: str) -> None:
    """A line of progress, on stderr."""
    print(line, file=sys.stderr, flush=True)


def table(results: Sequence[Result]) -> Iterator[str]:
    """A line for each row, at most 80 characters wide: each check's outcome; reasons follow below."""
    names = list(dict.fromkeys(name for result in results for name in result.checks))
    yield f"{'row':<19}" + "".join(f"{name:>8}" for name in names) + f"{'s':>5}"
    for result in results:
        cells = "".join(f"{result.checks.get(name, '-').partition(':')[0]:>8}" for name in names)
        yield f"{result.row!s:<19}{cells}{result.seconds:5.0f}"
    reasons = {f"{result.row}: {name} {text}" for result in results for name, text in result.checks.items() if text.startswith("FAILED")}
    reasons |= {text for result in results for text in result.checks.values() if text.startswith("skipped")}
    for reason in sorted(reasons):
        yield from textwrap.wrap(reason, WIDTH)


def main(arguments: Sequence[str] | None = None) -> int:
    """Every row, or those that are asked for; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", default="", metavar="TEXT", help="only the rows whose names have all these words, such as '3.12 spark'")
    parser.add_argument("--json", action="store_true", help="print the results as JSON instead of a table")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and do nothing")
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if set(options.row.split()) <= set(str(row).split())]
    if not rows or options.list:
        print("\n".join(map(str, rows or ROWS)))
        return 0 if rows else 2
    results = []
    with tempfile.TemporaryDirectory(prefix="ottla-install-") as scratch:
        wheel = build_wheel(Path(scratch))
        for number, row in enumerate(rows, 1):
            say(f"[{number}/{len(rows)}] {row}")
            results.append(run_row(row, wheel, Path(scratch) / f"row-{number}"))
    if options.json:
        print(json.dumps([to_json(result) for result in results], indent=1))
    else:
        print("\n".join(table(results)))
    return 1 if any(result.has_failed for result in results) else 0


def to_json(result: Result) -> Mapping[str, object]:
    """One row for programs."""
    row = result.row
    return {"python": row.python, "extra": row.extra, "versions": row.versions, "seconds": result.seconds, "checks": result.checks}


if __name__ == "__main__":
    sys.exit(main())
