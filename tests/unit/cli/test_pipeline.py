"""`ottla pipeline`: the commands, the run with its bar, and failures as sentences."""

import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from ottla.cli import pipeline as terminal_run
from ottla.cli.main import main
from ottla.cli.pipeline import Bar, PipelineOrder, TablePlace, end_offsets, execute, find, own_sentence, tasks_done
from ottla.client.errors import ClientError
from ottla.spark import sessions
from ottla.spark.pipelines import pipelines
from ottla.spark.runner import inputs, pipeline_run
from ottla.spark.runner import text_table as overviews
from ottla.spark.runner.inputs import InputError

RUN = ["pipeline", "run", "lag", "--bootstrap-server", "h:1", "--output", "/out"]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[PipelineOrder]:
    """Where orders go instead of to Spark."""
    found: list[PipelineOrder] = []
    monkeypatch.setattr(terminal_run, "execute", found.append)
    return found


def test_pipelines_and_their_columns():
    assert "lag: lag, lag_history\n" in invoke("pipeline", "list").output
    assert json.loads(invoke("pipeline", "list", "--json").output)["lag"] == ["lag", "lag_history"]
    fields = json.loads(invoke("pipeline", "show", "lag", "--json").output)["lag"]["fields"]
    assert fields[0] == {"name": "group", "type": "string", "nullable": fields[0]["nullable"], "metadata": {}}
    shown = invoke("pipeline", "show", "lag").output
    assert shown.startswith("lag\n  group string\n  topic string\n  partition int\n")
    assert "\nlag_history\n" in shown
    assert "there is no pipeline moon" in invoke("pipeline", "show", "moon").output


def test_an_order_by_default_and_with_everything(orders: list[PipelineOrder], tmp_path: Path):
    assert invoke(*RUN).exit_code == 0
    config = tmp_path / "client.properties"
    config.write_text("client.id=mine\nbootstrap.servers=other:1\nisolation.level=read_committed\nacks=all\ngroup.id=g\n")
    more = ["--stream", "--every", "3", "--group", "a", "--group", "b", "--topic", "t", "--command-config", str(config), "--json"]
    assert invoke(*RUN, *more, "--cores", "2").exit_code == 0
    plain, full = orders
    assert plain.place == TablePlace(directory="/out", format="parquet")
    assert (plain.mode, plain.groups, plain.topics, plain.properties, plain.cores, plain.as_json) == ("batch", (), (), {}, "*", False)
    assert (full.mode, full.every_s, full.groups, full.topics) == ("stream", 3, ("a", "b"), ("t",))
    assert (full.bootstrap_servers, full.cores, full.as_json) == ("h:1", "2", True)
    assert invoke(*RUN, "--timeout", "700").exit_code == 0
    assert orders.pop().properties == {"default.api.timeout.ms": "700"}
    assert (plain.limit, plain.since_ms) == (20, None)
    assert invoke(*RUN, "--limit", "5", "--since", "2026-11-22T14:31:07Z").exit_code == 0
    assert (orders[-1].limit, orders.pop().since_ms) == (5, 1_795_357_867_000)
    assert full.properties == {"client.id": "mine", "isolation.level": "read_committed"}, "one file often serves several tools"


def test_what_makes_no_sense_is_refused(orders: list[PipelineOrder]):
    refused = invoke("pipeline", "run", "rebalances", "--bootstrap-server", "h:1", "--output", "/out", "--topic", "t")
    assert (refused.exit_code, orders) == (2, [])
    assert "--topic means nothing to the pipeline rebalances" in refused.output
    untimed = invoke("pipeline", "run", "group_status", *RUN[3:], "--since", "2h")
    assert (untimed.exit_code, orders) == (2, [])
    assert "--since means nothing to the pipeline group_status: its rows have no time" in untimed.output
    assert "Invalid value for --since: 'yesterday' is no time: write" in invoke(*RUN, "--since", "yesterday").output


def test_tables_go_to_a_directory_or_into_a_catalog(orders: list[PipelineOrder]):
    run = [*RUN[:-2], "--table", "lake.kafka.lag", "--format", "iceberg"]
    assert invoke(*run).exit_code == 0
    assert orders.pop().place == TablePlace(table="lake.kafka.lag", format="iceberg")
    assert invoke(*run, "--available-now", "--checkpoint", "/progress").exit_code == 0
    assert orders.pop().place.checkpoints == "/progress"
    for more, words in (
        (RUN[:-2], "give either --output, a directory for the tables, or --table"),
        ([*run, "--output", "/out"], "give either --output, a directory for the tables, or --table"),
        ([*RUN, "--checkpoint", "/progress"], "--checkpoint belongs to --table"),
        ([*run, "--stream"], "--stream with --table needs --checkpoint, a directory for its progress"),
        ([*run, "--available-now"], "--available-now with --table needs --checkpoint"),
    ):
        refused = invoke(*more)
        assert (refused.exit_code, orders) == (2, []), more
        assert words in " ".join(refused.output.split())


def test_settings_make_another_pipeline_or_a_sentence(orders: list[PipelineOrder]):
    status = ["pipeline", "run", "group_status", *RUN[3:]]
    assert invoke(*status, "--set", "intervals=15", "--set", "min-distance=5").exit_code == 0
    assert orders[0].pipeline is not pipelines()["group_status"]
    for more, words in (
        ([*status, "--set", "moon=1"], "there is no setting moon"),
        ([*status, "--set", "intervals"], "intervals=: it takes a number"),
        ([*RUN, "--set", "intervals=15"], "the pipeline lag has no settings"),
    ):
        refused = invoke(*more)
        assert refused.exit_code == 2
        assert words in " ".join(refused.output.split())


def test_tasks_of_all_present_stages_count():
    stages = {1: SimpleNamespace(numTasks=8, numCompletedTasks=2), 2: SimpleNamespace(numTasks=2, numCompletedTasks=0), 3: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    assert tasks_done(tracker) == 0.2
    assert tasks_done(SimpleNamespace(getActiveStageIds=list, getStageInfo=stages.get)) == 0.0


def test_offsets_of_a_micro_batch_without_the_ids_of_topics():
    text = '{"t": {"0": 5, "1": 7}, "#topic_ids": {"t": "x"}}'
    assert end_offsets({"sources": [{"endOffset": text}]}) == 12
    assert end_offsets({"sources": [{"endOffset": None}]}) == end_offsets({"sources": []}) == end_offsets(None) == 0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_moves_on_a_terminal_and_is_silent_elsewhere(is_terminal: bool):
    out, looked = io.StringIO(), threading.Event()

    def look() -> float:
        looked.set()
        return 0.5

    with Bar(Console(file=out, force_terminal=is_terminal, width=80), "Spark starts") as bar:
        bar.show("offset_commits", look)
        assert not is_terminal or looked.wait(60)
    assert ("offset_commits" in out.getvalue()) == is_terminal


WRAPPED = """[STREAM_FAILED] Query terminated: Traceback (most recent call last):
ottla.spark.sink.senders.DeliveryError: no broker answers

The above exception was the direct cause of the following exception:

ottla.spark.migration.values.MigrationError: cannot write to narrow: no broker answers
\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_the_last_exception_of_ours_is_the_sentence():
    assert own_sentence(RuntimeError(WRAPPED)) == "cannot write to narrow: no broker answers"


def test_what_is_not_ours_has_no_sentence():
    assert own_sentence(RuntimeError("java.lang.OutOfMemoryError: heap\nValueError: x")) is None


def test_a_format_that_spark_does_not_have():
    error = RuntimeError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure the provider name is correct")
    assert own_sentence(error) == "Spark has no format delta here: add its jars, with spark.jars.packages in spark-defaults.conf"


class SparkError(Exception):
    """As Spark reports what a worker raised."""


def order(**more: Any) -> PipelineOrder:
    values: dict[str, Any] = {"name": "lag", "pipeline": Mock(), "bootstrap_servers": "h:1", "properties": {}}
    values |= {
        "place": TablePlace(directory="/out/", format="parquet"),
        "mode": "batch",
        "every_s": 1,
        "groups": (),
        "topics": (),
        "cores": "2",
        "as_json": False,
    }
    values |= {"limit": 20, "since_ms": None}
    return PipelineOrder(**{**values, **more})


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
