"""The results directory is renewed when it is ours, and left alone when it is not."""

import json
from pathlib import Path

import pytest

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results


def test_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    results = Results(tmp_path / "demo-results")
    results.prepare()
    results.consumer_log("consumer-1").write_text("old")
    results.prepare()
    assert [path.name for path in results.directory.iterdir()] == ["summary.json"]
    assert json.loads((results.directory / "summary.json").read_text()) == {"finished": False}


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    Results(tmp_path).prepare()
    assert (tmp_path / "summary.json").is_file()


def test_what_is_not_ours_is_never_cleared(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(DemoFailedError, match="--results"):
        Results(tmp_path).prepare()
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DemoFailedError):
        Results(tmp_path / "file").prepare()
