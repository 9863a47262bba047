"""Before Spark starts: a Java must be there, and what it says goes to a file. The Spark part itself: tests/spark/test_demo.py."""

import os
from pathlib import Path

import pytest

from ottla.cli.demo import DemoFailedError, analysis
from ottla.cli.demo.analysis import _stderr_into, require_java
from ottla.testing.processes.java import ToolMissing


def test_without_java_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> Path:
        raise ToolMissing("needs Java 17 or later, found none: install one")

    monkeypatch.setattr(analysis, "find_java_home", find_none)
    with pytest.raises(DemoFailedError, match="Spark needs Java 17 or later"):
        require_java()


def test_spark_learns_which_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "/somewhere/else")
    monkeypatch.setattr(analysis, "find_java_home", lambda: tmp_path / "jvm")
    require_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jvm")


def test_stderr_goes_to_a_file_and_comes_back(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with _stderr_into(tmp_path / "spark.log"):
        os.write(2, b"WARN this and that\n")
    os.write(2, b"after\n")
    assert (tmp_path / "spark.log").read_text() == "WARN this and that\n"
    assert capfd.readouterr().err == "after\n"
