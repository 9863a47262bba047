import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from ottla.broker import Broker
from ottla.cli.main import main


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker whose two groups have had a member each."""
    with Broker() as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(servers)
        producer.produce("orders", b"one")
        producer.flush()
        for group in ("a", "b"):
            consumer = Consumer({**servers, "group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            assert consumer.poll(10) is not None
            consumer.close()
        yield broker.bootstrap_servers


def test_a_page_of_all_groups_is_written(servers: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--output", str(path)])
    assert ran.exit_code == 0, ran.output
    assert 'data-group="a"' in path.read_text()
    assert 'data-group="b"' in path.read_text()


def test_one_group_as_json(servers: str) -> None:
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--group", "b", "--format", "json"])
    assert ran.exit_code == 0, ran.output
    [story] = json.loads(ran.stdout)["stories"]
    assert CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--group", "b", "--json"]).exit_code == 0
    assert [member["name"] for member in story["members"]] == ["b-1"]


def test_names_can_be_replaced(servers: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--anonymise", "--output", str(path)])
    assert ran.exit_code == 0, ran.output
    assert 'data-group="group-1"' in path.read_text()
    assert servers not in path.read_text()


def test_a_group_without_events_is_an_error_with_a_sentence(servers: str) -> None:
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--group", "zzz"])
    assert ran.exit_code == 1
    assert ran.output.startswith("Error: no evidence of zzz was found.")


def test_what_cannot_be_understood_is_said() -> None:
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", "nonsense"])
    assert ran.exit_code == 1
    assert ran.output.startswith("Error: ")
    ran = CliRunner().invoke(main, ["report", "--since", "yesterdayish"])
    assert ran.exit_code == 2
    assert CliRunner().invoke(main, ["report"]).output.startswith("Error: nothing to read: give --bootstrap-server")
