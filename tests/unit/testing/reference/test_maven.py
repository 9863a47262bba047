"""Jars are fetched once, whole or not at all, by one process at a time; a program that stands in for Maven counts its runs."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.testing.processes.java import ToolMissing
from ottla.testing.reference.maven import FetchFailed, fetch_jars

GOOD = """#!/bin/sh
echo run >> "$COUNT"
for argument in "$@"; do case "$argument" in -DoutputDirectory=*) into=${argument#*=};; */pom.xml) pom=$argument;; esac; done
sleep 0.1
cp "$pom" "$into/one.jar"
touch "$into/two.jar"
"""
BAD = """#!/bin/sh
for argument in "$@"; do case "$argument" in -DoutputDirectory=*) into=${argument#*=};; esac; done
touch "$into/half.jar"
echo "[ERROR] no such artifact: x"
exit 3
"""


@pytest.fixture
def mvn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that is found as `mvn`; a test writes what it does. Java is there."""
    programs = tmp_path / "programs"
    java_home = tmp_path / "java"
    for directory in (programs, java_home / "bin"):
        directory.mkdir(parents=True)
    (java_home / "release").write_text('JAVA_VERSION="17"\n')
    for program in (programs / "mvn", java_home / "bin" / "java"):
        program.write_text(GOOD)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(java_home))
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    return programs / "mvn"


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "count").read_text().splitlines())


def test_jars_are_fetched_once(mvn: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    for _ in range(2):
        jars = fetch_jars(["org.example:thing:1.0"], tmp_path / "cache" / "thing", what="Thing", report=reported.append)
        assert [jar.name for jar in jars] == ["one.jar", "two.jar"]
    assert runs(tmp_path) == 1
    assert "Fetching Thing" in reported[0]
    assert reported[-1] == "Fetched Thing: 2 jars."
    pom = jars[0].read_text()
    assert "<groupId>org.example</groupId><artifactId>thing</artifactId><version>1.0</version>" in pom
    assert "exclusion" not in pom


def test_jars_alone_leave_out_what_they_depend_on(mvn: Path, tmp_path: Path) -> None:
    artifacts = ["org.example:thing:1.0", "org.example:other:2.0"]
    pom = fetch_jars(artifacts, tmp_path / "cache" / "thing", what="Thing", are_alone=True, report=lambda _: None)[0].read_text()
    assert pom.count("<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>") == len(artifacts)


def test_many_at_once_fetch_once(mvn: Path, tmp_path: Path) -> None:
    def fetch(_: int) -> list[Path]:
        return fetch_jars(["org.example:thing:1.0"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(fetch, range(4)))
    assert results == [results[0]] * 4
    assert runs(tmp_path) == 1


def test_other_artifacts_replace_what_is_there(mvn: Path, tmp_path: Path) -> None:
    for version in ("1", "2"):
        jars = fetch_jars([f"org.example:thing:{version}"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)
        assert f"<version>{version}</version></dependency>" in jars[0].read_text()
    assert runs(tmp_path) == 2


def test_a_failure_leaves_nothing_that_could_be_taken_for_whole(mvn: Path, tmp_path: Path) -> None:
    mvn.write_text(BAD)
    with pytest.raises(FetchFailed, match=r"(?s)could not fetch Thing \(Maven ended with 3\).*no such artifact"):
        fetch_jars(["org.example:thing:1"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)
    assert not (tmp_path / "cache" / "thing").exists()
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    mvn.write_text(GOOD)
    assert len(fetch_jars(["org.example:thing:1"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)) == 2


def test_maven_without_jars_is_a_failure(mvn: Path, tmp_path: Path) -> None:
    mvn.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(FetchFailed, match="brought no jar"):
        fetch_jars(["org.example:thing:1"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)


def test_without_maven_the_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="needs Maven"):
        fetch_jars(["org.example:thing:1"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)


def test_what_is_there_needs_no_maven(mvn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = fetch_jars(["org.example:thing:1"], tmp_path / "cache" / "thing", what="Thing", report=lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch_jars(["org.example:thing:1"], tmp_path / "cache" / "thing", what="Thing") == wanted
