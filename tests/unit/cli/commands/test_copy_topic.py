"""`ottla copy-topic`: what it says when it cannot; a copy that works is in tests/spark/test_copy_topic.py."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.core.model import TopicPartition
from ottla.spark import sessions
from ottla.spark.copy import job
from ottla.spark.copy.job import Copied
from ottla.spark.copy.steps import PARTITIONERS
from ottla.spark.copy.writer import CopyError

ARGUMENTS = ["copy-topic", "wide", "narrow", "--bootstrap-server", "h:1"]


class Session:
    """A Spark session that only counts how often it was stopped."""

    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Session:
    """What the command takes for Spark."""
    found = Session()
    monkeypatch.setattr(sessions, "session", lambda *_arguments, **_options: found)
    return found


class SparkError(Exception):
    """As Spark reports what a worker raised."""


def failing(error: Exception) -> Any:
    def run(_copy: Any, _spark: Any) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (CopyError("there is no topic wide: create it first"), "Error: there is no topic wide: create it first\n"),
        (SparkError("Job aborted\nottla.spark.copy_writer.CopyError: cannot write\n at x"), "Error: cannot write\n"),
    ],
)
def test_what_is_in_the_way_is_one_sentence(monkeypatch: pytest.MonkeyPatch, spark: Session, error: Exception, words: str) -> None:
    monkeypatch.setattr(job.TopicCopy, "run", failing(error))
    done = CliRunner().invoke(main, ARGUMENTS)
    assert (done.exit_code, done.output, spark.stopped) == (1, words, 1)


def test_what_was_copied_as_json(monkeypatch: pytest.MonkeyPatch, spark: Session) -> None:
    copied = Copied(3, {"g": {TopicPartition("narrow", 1): 7, TopicPartition("narrow", 0): 5}})
    monkeypatch.setattr(job.TopicCopy, "run", lambda *_: copied)
    done = CliRunner().invoke(main, [*ARGUMENTS, "--json"])
    assert json.loads(done.stdout) == {"source": "wide", "target": "narrow", "records": 3, "groups": {"g": {"0": 5, "1": 7}}}


def test_spark_is_stopped_after_a_copy(monkeypatch: pytest.MonkeyPatch, spark: Session) -> None:
    monkeypatch.setattr(job.TopicCopy, "run", lambda *_: Copied(3, {}))
    done = CliRunner().invoke(main, ARGUMENTS)
    assert (done.exit_code, done.stdout, spark.stopped) == (0, "3 messages copied from wide to narrow\n", 1)


def test_any_other_failure_is_not_hidden(monkeypatch: pytest.MonkeyPatch, spark: Session) -> None:
    monkeypatch.setattr(job.TopicCopy, "run", failing(SparkError("out of memory")))
    assert isinstance(CliRunner().invoke(main, ARGUMENTS).exception, SparkError)


def test_options_that_contradict_each_other() -> None:
    done = CliRunner().invoke(main, [*ARGUMENTS, "--group", "g", "--no-groups"])
    assert done.exit_code == 2
    assert "--group or --no-groups, not both" in done.output


def test_an_address_that_is_none_is_reported_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "session", failing(AssertionError("Spark starts")))
    done = CliRunner().invoke(main, ["copy-topic", "wide", "narrow", "--bootstrap-server", "nonsense"])
    assert done.exit_code == 2
    assert "'nonsense' is no host:port: write for example 127.0.0.1:9092" in done.output


def test_it_offers_the_partitioners_that_there_are() -> None:
    done = CliRunner().invoke(main, ["copy-topic", "--help"])
    assert f"[{'|'.join(PARTITIONERS)}]" in done.output
