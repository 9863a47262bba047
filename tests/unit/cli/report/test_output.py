import json
from pathlib import Path

import click
import pytest

from ottla.cli.report.output import write_report
from ottla.console.report.report import Report
from ottla.core.diagnosis.story.rebalance import StoryRebalance
from ottla.core.diagnosis.story.story import story

REPORT = Report((story("orders \ud800", [], [StoryRebalance(started_ms=1, sentence="w1 came back.")]),))


def test_a_page_goes_into_a_file_and_the_sentences_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.html"
    write_report(REPORT, output=str(path), output_format="html")
    assert path.read_text("utf-8").startswith("<!doctype html>")
    printed = capsys.readouterr()
    assert "w1 came back." in printed.out
    assert f"{path}: {path.stat().st_size:,} bytes" in printed.err


def test_json_goes_to_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    write_report(Report(()), output="-", output_format="json")
    assert json.loads(capsys.readouterr().out) == {"stories": []}


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"cannot be written: No such file"):
        write_report(REPORT, output=str(tmp_path / "none" / "r.html"), output_format="html")
