"""Class archives: named after what they are made of, made once, and a JVM that starts from one takes its classes from it."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ottla.testing.processes.java import ToolMissing, find_java
from ottla.testing.reference import class_archives
from ottla.testing.reference.apache_kafka import VERSION
from ottla.testing.reference.class_archives import archive_options, kafka_archive, make_archive, spark_archive


def ignore(_: str) -> None:
    return None


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Apache Kafka's jars, and a Java to run them."""
    java = tmp_path / "java"
    java.touch()
    monkeypatch.setattr(class_archives, "find_java", lambda: java)
    directory = tmp_path / f"apache-kafka-{VERSION}"
    directory.mkdir()
    (directory / "one.jar").write_bytes(b"1")
    return directory


def test_another_jar_or_java_has_another_archive(jars: Path) -> None:
    cache = jars.parent
    seen = [kafka_archive(cache), kafka_archive(cache)]
    assert seen[0] == seen[1]
    (jars / "two.jar").write_bytes(b"2")
    seen.append(kafka_archive(cache))
    os.utime(cache / "java", (1, 1))
    seen.append(kafka_archive(cache))
    (jars / "one.jar").write_bytes(b"12")
    seen.append(kafka_archive(cache))
    assert len(set(seen)) == 4
    assert spark_archive(cache) not in seen


def test_it_is_made_once_and_the_outdated_one_goes(jars: Path) -> None:
    archive = kafka_archive(jars.parent)
    outdated, other = archive.with_name("apache-kafka-0123456789abcdef.jsa"), archive.with_name("spark-0123456789abcdef.jsa")
    archive.parent.mkdir()
    outdated.touch()
    other.touch()
    runs: list[Sequence[str]] = []

    def run(options: Sequence[str]) -> None:
        runs.append(options)
        (option,) = (each for each in options if each.startswith("-XX:ArchiveClassesAtExit="))
        Path(option.partition("=")[2]).write_text("classes")

    assert archive_options(archive) == ()
    make_archive(archive, run, report=ignore)
    make_archive(archive, run, report=ignore)
    assert len(runs) == 1
    assert archive.read_text() == "classes"
    assert (outdated.exists(), other.exists()) == (False, True)
    assert archive_options(archive)[0] == f"-XX:SharedArchiveFile={archive}"


def test_a_jvm_that_makes_none_is_reported(jars: Path) -> None:
    said: list[str] = []
    archive = kafka_archive(jars.parent)
    make_archive(archive, lambda _: None, report=said.append)
    assert archive_options(archive) == ()
    assert "was not made" in said[-1]


def test_on_a_new_machine_the_archive_is_named_after_the_jars_that_were_fetched(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = jars.parent
    made: list[Path] = []
    monkeypatch.setattr(class_archives, "CACHE", cache)
    monkeypatch.setattr(class_archives, "find_java_home", lambda: cache)
    monkeypatch.setattr(class_archives, "fetch_jars", lambda *_, **__: (jars / "fetched.jar").write_bytes(b"2"))
    monkeypatch.setattr(class_archives, "make_archive", lambda archive, _run: made.append(archive))
    class_archives.main()
    assert made == [spark_archive(cache), kafka_archive(cache)]


@pytest.fixture
def run_java() -> Callable[..., str]:
    try:
        java = find_java()
    except ToolMissing as missing:
        pytest.skip(f"a JVM {missing}")

    def run(*options: str) -> str:
        command = [str(java), *options, "-version"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert ran.stdout == "", "a tool's own lines must stand alone"
        return ran.stderr

    return run


def test_a_jvm_starts_from_it_and_does_not_complain_of_one_that_does_not_fit(run_java: Callable[..., str], tmp_path: Path) -> None:
    archive = tmp_path / "java.jsa"
    make_archive(archive, lambda options: run_java(*options), report=ignore)
    required = "-Xshare:on"  # a JVM that cannot use the archive ends
    assert "version" in run_java(*archive_options(archive), required)
    archive.chmod(0o600)
    archive.write_bytes(b"no archive")
    assert "version" in run_java(*archive_options(archive))
