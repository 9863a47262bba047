"""What the wheel holds and declares. `make install-test` installs it into fresh environments; these are the parts that take seconds."""

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n(hatchling is in the extra `test`: make setup)"
    [path] = directory.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(read(wheel, "METADATA"))


def read(wheel: zipfile.ZipFile, name: str) -> str:
    [path] = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


@pytest.fixture(scope="module")
def install_test() -> Iterator[ModuleType]:
    """scripts/install_test.py as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module("install_test")


def test_the_wheel_holds_the_packages_with_their_types_and_documentation_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    packages = [path for folder in ("ottla", "pyspark_ottla") for path in (ROOT / "src" / folder).rglob("*")]
    source = {str(path.relative_to(ROOT / "src")) for path in packages if path.is_file() and "__pycache__" not in path.parts}
    pages = {f"ottla/{path.relative_to(ROOT)}" for path in (ROOT / "docs").rglob("*") if path.is_file()}
    assert files == source | pages
    assert "ottla/py.typed" in files


def test_the_metadata_has_the_extras_the_command_and_the_pytest_plugin(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == PROJECT["optional-dependencies"].keys()
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    points = read(wheel, "entry_points.txt")
    assert "[console_scripts]\nottla = ottla.cli.main:main\n" in points
    assert "[pytest11]\nottla = ottla.testing.pytest_plugin\n" in points


@pytest.mark.parametrize("extra", ["", "arrow", "spark"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_every_dependency_states_an_oldest_version(install_test: ModuleType, metadata: Message, python: str, extra: str) -> None:
    found = install_test.oldest_versions(metadata.get_all("Requires-Dist", []), python=python, extra=extra)
    names = [text.partition("==")[0] for text in found]
    assert len(names) == len(set(names))
    assert {"kio", "click", "cramjam", "rich"} <= set(names)
    assert ("numpy" in names) == bool(extra)
    assert ("pyspark" in names) == (extra == "spark")


def test_markers_and_bounds_make_constraints(install_test: ModuleType) -> None:
    requirements = ["a<2,>=1.5", "b>=2; python_version < '3.13'", "b>=2.1; python_version >= '3.13'", "c==3; extra == 'x'"]
    assert install_test.oldest_versions(requirements, python="3.12", extra="") == ["a==1.5", "b==2"]
    assert install_test.oldest_versions(requirements, python="3.13", extra="x") == ["a==1.5", "b==2.1", "c==3"]
    with pytest.raises(ValueError, match="states no oldest version"):
        install_test.oldest_versions(["a<2"], python="3.12", extra="")


def test_the_table_fits_a_terminal_and_names_what_failed(install_test: ModuleType) -> None:
    checks = dict.fromkeys(["install", *(name for name, _ in install_test.install_checks.checks("spark"))], "ok")
    results = [
        install_test.Result(row, {**checks, "spark": "skipped: no Java", "help": "FAILED: " + "word " * 40}, 1234.5)
        for row in install_test.ROWS
    ]
    lines = list(install_test.table(results))
    assert max(map(len, lines)) <= 80
    assert len(results) == 21
    assert sum(line == "skipped: no Java" for line in lines) == 1
    assert sum(line.startswith("3.13 spark newest: help FAILED: word word") for line in lines) == 1
    assert all(result.has_failed for result in results)


def test_rows_are_chosen_by_words(install_test: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert install_test.main(["--list", "--row", "3.12 spark"]) == 0
    assert capsys.readouterr().out.splitlines() == ["3.12 spark oldest", "3.12 spark newest"]
    assert install_test.main(["--row", "3.10"]) == 2


def test_the_oldest_patch_release_of_each_python_has_a_row(install_test: ModuleType) -> None:
    patches = [row.python for row in install_test.ROWS if row.python.count(".") == 2]
    assert [patch.rpartition(".")[0] for patch in patches] == list(install_test.PYTHONS)
    assert PROJECT["requires-python"] == f">={patches[0]}"


def test_a_python_is_found_by_its_patch_release_or_by_any(
    install_test: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version in (("first", "3.12.10"), ("second", "3.12.1")):
        program = tmp_path / folder / "python3.12"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho {version}.\n")
        program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    assert install_test.find_python("3.12") == tmp_path / "first" / "python3.12"
    assert install_test.find_python("3.12.1") == tmp_path / "second" / "python3.12"
    assert install_test.find_python("3.12.0") is None


def test_the_same_name_of_a_package_in_constraints_and_metadata_has_versions_that_go_together(metadata: Message) -> None:
    """What the tests were last seen to pass with is what the package allows."""
    from packaging.requirements import Requirement

    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    for text in metadata.get_all("Requires-Dist", []):
        requirement = Requirement(text)
        name = requirement.name if requirement.name in pinned else requirement.name.replace("-", "_")
        assert name in pinned, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pinned[name]), text


def test_no_class_of_click_is_subscripted_when_a_module_is_loaded() -> None:
    """Before 8.4, click's classes have no type parameters."""
    for path in (ROOT / "src").rglob("*.py"):
        assert not re.findall(r"^class .*\bclick\.\w+\[", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize(
    ("then", "counts"),
    [("", False), ('  File "/venv/pyspark/daemon.py", line 1\n', False), ('  File "/venv/ottla/cli/main.py", line 1\nKeyError: 1', True)],
)
def test_a_traceback_counts_unless_it_is_of_pysparks_daemon(install_test: ModuleType, then: str, counts: bool) -> None:
    assert install_test.install_checks.has_traceback(f"WARN\nTraceback (most recent call last):\n{then}") is counts
