"""Which Java is found, and the reason where none is."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.processes import java
from ottla.testing.processes.java import ToolMissing, find_java, find_java_home, java_version


def install(directory: Path, version: str | None) -> Path:
    """A folder that looks like an installed Java; without a version it has no release file and its program fails."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    if version:
        (directory / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return program


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java, "JVM_DIRECTORY", tmp_path / "jvm")


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "jvm" / "java-17", "17.0.1")
    wanted = install(tmp_path / "home", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == wanted


def test_then_comes_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "jvm" / "java-17", "17.0.1")
    wanted = install(tmp_path / "opt", "21.0.2")
    monkeypatch.setenv("PATH", str(tmp_path / "opt" / "bin"))
    assert find_java() == wanted


def test_the_home_is_where_links_lead_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = install(tmp_path / "opt" / "jdk-21", "21.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java_home() == tmp_path / "opt" / "jdk-21"


def test_as_a_program_it_needs_no_installed_package(tmp_path: Path) -> None:
    install(tmp_path / "home", "21")
    command = [sys.executable, "-I", "-S", java.__file__]
    found = subprocess.run(command, env={"JAVA_HOME": str(tmp_path / "home")}, capture_output=True, text=True, check=True)
    assert found.stdout == f"{tmp_path / 'home'}\n"


def test_then_the_oldest_installed_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    install(tmp_path / "home", "11.0.2")
    install(tmp_path / "jvm" / "a", "25")
    wanted = install(tmp_path / "jvm" / "b", "17.0.15")
    install(tmp_path / "jvm" / "c", "1.8.0_392")
    assert find_java() == wanted


def test_without_one_the_reason_names_what_was_found(tmp_path: Path) -> None:
    install(tmp_path / "jvm" / "old", "11.0.2")
    with pytest.raises(ToolMissing, match=r"needs Java 17 or later, found only .*old/bin/java \(Java 11\)"):
        find_java()


def test_without_any_the_reason_says_where_it_was_looked_for() -> None:
    with pytest.raises(ToolMissing, match="found none in JAVA_HOME, PATH and /usr/lib/jvm"):
        find_java()


@pytest.mark.parametrize(("stated", "version"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), ("21-ea", 21)])
def test_the_version_is_the_feature_number(tmp_path: Path, stated: str, version: int) -> None:
    assert java_version(install(tmp_path / "some", stated)) == version


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    program = install(tmp_path / "some", None)
    assert java_version(program) is None
    program.write_text("#!/bin/sh\necho 'openjdk version \"19.0.1\" 2022-10-18' >&2\n")
    assert java_version(program) == 19
