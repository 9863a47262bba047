"""The demo's Spark runs, and its chart of lag."""

import os
from pathlib import Path

import pytest

from ottla.cli.demo import DemoFailedError, analysis
from ottla.cli.demo.analysis import BLOCKS, HEIGHT, LagRow, _stderr_into, draw, require_java, spans, summary
from ottla.cli.processes import ToolMissing

ROWS = [
    LagRow(0, 1_000, None),
    LagRow(0, 1_200, 10),
    LagRow(1, 1_250, 4),
    LagRow(0, 1_210, 80),  # a peak between two
    LagRow(0, 1_220, 10),
    LagRow(1, 1_900, 0),
    LagRow(0, 2_500, 500),  # after the end
]


def test_the_greatest_counts_and_what_is_known_lasts():
    assert spans(ROWS, 1_000, 2_000, 5) == {0: [None, 80, 10, 10, 10], 1: [None, 4, 4, 4, 4]}
    assert spans([], 1_000, 2_000, 5) == {}
    assert spans([LagRow(2, 500, 7)], 1_000, 1_000, 3) == {2: [7, 7, 7]}


def test_the_picture_has_the_group_the_rebalances_and_every_partition():
    lines = draw(ROWS, [(1, 1_000), (2, 1_010), (3, 1_500), (9, 5_000)], starts_ms=1_000, ends_ms=2_000, width=76)
    assert max(map(len, lines)) <= 76
    group, marks, partitions = lines[:HEIGHT], lines[HEIGHT:-2], lines[-2:]
    assert group[0].startswith("      80 ")
    assert [line.strip() for line in marks] == ["▲1" + " " * 28 + "▲3", "▲2"]
    assert partitions[0].startswith("       0 " + " " * 12 + BLOCKS[-1])
    assert partitions[0].split()[-1].endswith("80")
    assert partitions[1].split()[-1] == "4"


def test_no_lag_at_all_is_a_picture_too():
    lines = draw([], [(1, 1_000)], starts_ms=1_000, ends_ms=2_000, width=60)
    assert lines[HEIGHT].strip() == "▲1"
    assert summary([], starts_ms=0, ends_ms=9) == {"greatest_lag": 0, "its_partition": -1, "at_ms": 0}


def test_the_worst_within_the_time():
    assert summary(ROWS, starts_ms=1_000, ends_ms=2_000) == {"greatest_lag": 80, "its_partition": 0, "at_ms": 1_210}


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
