"""A pipeline run as people see it: sentences instead of stack traces, a table or JSON; Spark is played by stubs."""

import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest

from ottla.cli.pipeline.terminal_run import Order, Place, execute, find
from ottla.client.errors import ClientError
from ottla.spark import sessions
from ottla.spark.runner import inputs, overviews, pipeline_run
from ottla.spark.runner.inputs import InputError


class SparkError(Exception):
    """As Spark reports what a worker raised."""


def order(**more: Any) -> Order:
    values: dict[str, Any] = {"name": "lag", "pipeline": Mock(), "bootstrap_servers": "h:1", "properties": {}}
    values |= {
        "place": Place(directory="/out/", format="parquet"),
        "mode": "batch",
        "every_s": 1,
        "groups": (),
        "topics": (),
        "cores": "2",
        "as_json": False,
    }
    values |= {"limit": 20, "since_ms": None}
    return Order(**{**values, **more})


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Mock:
    stub = Mock()
    monkeypatch.setattr(inputs, "check_brokers", lambda bootstrap_servers, properties: None)
    monkeypatch.setattr(sessions, "session", lambda *_arguments, **_options: stub)
    return stub


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("there is no topic x"), "there is no topic x"),
        (ClientError("no answer"), "no answer"),
        (SparkError("Job aborted\n  ottla.client.errors.RequestFailedError: not allowed\n at x"), "not allowed"),
    ],
)
def test_what_is_in_the_way_is_one_sentence_and_spark_ends(monkeypatch: pytest.MonkeyPatch, spark: Mock, error: Exception, words: str):
    monkeypatch.setattr(pipeline_run.PipelineRun, "batch", Mock(side_effect=error))
    with pytest.raises(click.ClickException) as raised:
        execute(order())
    assert raised.value.message == words
    spark.stop.assert_called_once()


def test_a_wrong_setting_is_said_before_spark_starts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "session", Mock(side_effect=AssertionError))
    with pytest.raises(click.ClickException, match=r"security\.protocol"):
        execute(order(properties={"security.protocol": "MOON"}))


def test_brokers_that_cannot_be_reached_are_said_before_spark_starts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "session", Mock(side_effect=AssertionError))
    with pytest.raises(click.ClickException, match=r"no broker of bootstrap\.servers was reached in 500 ms .* broker localhost:1: "):
        execute(order(bootstrap_servers="localhost:1", properties={"default.api.timeout.ms": "500"}))


@pytest.mark.usefixtures("spark")
def test_other_failures_stay_what_they_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline_run.PipelineRun, "batch", Mock(side_effect=SparkError("out of memory")))
    with pytest.raises(SparkError):
        execute(order())


@pytest.mark.usefixtures("spark")
def test_the_overview_and_where_the_tables_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(pipeline_run.PipelineRun, "batch", lambda run, on_table: {"lag": SimpleNamespace(count=lambda: 3)})
    monkeypatch.setattr(overviews, "overview_text", lambda pipeline, frame, **options: f"the latest {options['limit']}\n")
    execute(order(limit=7))
    assert capsys.readouterr().out == "the latest 7\n\nlag: 3 rows in /out/lag\n"
    execute(order(as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert document.pop("seconds") >= 0
    assert document == {"pipeline": "lag", "mode": "batch", "tables": {"lag": {"path": "/out/lag", "rows": 3}}}


def test_an_unknown_pipeline_is_answered_with_those_that_there_are():
    with pytest.raises(
        click.BadParameter, match="there are group_generations, group_status, lag, members, offset_commits, rebalances, verdicts"
    ):
        find("moon")
    assert "lag_history" in find("lag").outputs
