"""`ottla pipeline`: what it lists, and which orders its options make; a run that works is in tests/spark/test_pipeline_command.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.cli.pipeline import terminal_run
from ottla.cli.pipeline.terminal_run import Order, Place
from ottla.spark.pipelines import pipelines

RUN = ["pipeline", "run", "lag", "--bootstrap-server", "h:1", "--output", "/out"]


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    """Where orders go instead of to Spark."""
    found: list[Order] = []
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


def test_an_order_by_default_and_with_everything(orders: list[Order], tmp_path: Path):
    assert invoke(*RUN).exit_code == 0
    config = tmp_path / "client.properties"
    config.write_text("client.id=mine\nbootstrap.servers=other:1\nisolation.level=read_committed\nacks=all\ngroup.id=g\n")
    more = ["--stream", "--every", "3", "--group", "a", "--group", "b", "--topic", "t", "--command-config", str(config), "--json"]
    assert invoke(*RUN, *more, "--cores", "2").exit_code == 0
    plain, full = orders
    assert plain.place == Place(directory="/out", format="parquet")
    assert (plain.mode, plain.groups, plain.topics, plain.properties, plain.cores, plain.as_json) == ("batch", (), (), {}, "*", False)
    assert (full.mode, full.every_s, full.groups, full.topics) == ("stream", 3, ("a", "b"), ("t",))
    assert (full.bootstrap_servers, full.cores, full.as_json) == ("h:1", "2", True)
    assert invoke(*RUN, "--timeout", "700").exit_code == 0
    assert orders.pop().properties == {"default.api.timeout.ms": "700"}
    assert (plain.limit, plain.since_ms) == (20, None)
    assert invoke(*RUN, "--limit", "5", "--since", "2026-11-22T14:31:07Z").exit_code == 0
    assert (orders[-1].limit, orders.pop().since_ms) == (5, 1_795_357_867_000)
    assert full.properties == {"client.id": "mine", "isolation.level": "read_committed"}, "one file often serves several tools"


def test_what_makes_no_sense_is_refused(orders: list[Order]):
    refused = invoke("pipeline", "run", "rebalances", "--bootstrap-server", "h:1", "--output", "/out", "--topic", "t")
    assert (refused.exit_code, orders) == (2, [])
    assert "--topic means nothing to the pipeline rebalances" in refused.output
    untimed = invoke("pipeline", "run", "group_status", *RUN[3:], "--since", "2h")
    assert (untimed.exit_code, orders) == (2, [])
    assert "--since means nothing to the pipeline group_status: its rows have no time" in untimed.output
    assert "Invalid value for --since: 'yesterday' is no time: write" in invoke(*RUN, "--since", "yesterday").output


def test_tables_go_to_a_directory_or_into_a_catalog(orders: list[Order]):
    run = [*RUN[:-2], "--table", "lake.kafka.lag", "--format", "iceberg"]
    assert invoke(*run).exit_code == 0
    assert orders.pop().place == Place(table="lake.kafka.lag", format="iceberg")
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


def test_settings_make_another_pipeline_or_a_sentence(orders: list[Order]):
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
