"""`ottla migrate`: what its options mean; migrations that work are in tests/spark/test_migrate.py."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.cli.migrate import run
from ottla.cli.migrate.run import Order
from ottla.spark.migration.job import Migrated
from ottla.spark.migration.offsets import Carried
from ottla.spark.migration.values import PARTITIONERS, RECORDS_MAX

ARGUMENTS = ["migrate", "wide", "narrow", "--bootstrap-server", "h:1"]


class Executed:
    """The orders that were given; nothing is run but what is asked of the run."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.asked: list[Any] = []

    def __call__(self, order: Order, work: Any) -> Any:
        self.orders.append(order)
        return work(self)

    def copy(self) -> Migrated:
        self.asked.append("copy")
        return Migrated(records=3, groups={"g": Carried({1: 7, 0: 5}, 2)})

    def follow(self, idle_s: float) -> Migrated:
        self.asked.append(("follow", idle_s))
        return Migrated(records=4, groups={})

    def forecast(self) -> Migrated:
        self.asked.append("forecast")
        return Migrated(records=5, groups={"g": Carried({0: 1}, 0)})


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> Executed:
    found = Executed()
    monkeypatch.setattr(run, "execute", found)
    return found


def test_the_defaults(executed: Executed) -> None:
    done = CliRunner().invoke(main, ARGUMENTS)
    assert done.output == "3 records copied from wide to narrow\ngroup g reads 2 records again, from 0:5, 1:7\n"
    (order,) = executed.orders
    assert (order.cores, order.what) == ("*", "migrating wide to narrow")
    planned = order.migration
    assert (planned.source, planned.target, planned.partitions, planned.groups) == ("wide", "narrow", None, None)
    assert (planned.partitioner, planned.records_max) == ("murmur2", RECORDS_MAX)
    assert planned.target_cluster is planned.source_cluster


def test_the_options(executed: Executed, tmp_path: Path) -> None:
    file = tmp_path / "to.properties"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    more = [
        "--partitions",
        "6",
        "--groups",
        "a,b",
        "--groups",
        "c",
        "--partitioner",
        "crc32",
        "--max-records-per-batch",
        "9",
        "--cores",
        "2",
    ]
    there = ["--to-bootstrap-server", "there:1", "--to-command-config", str(file)]
    assert CliRunner().invoke(main, [*ARGUMENTS, *more, *there, "--follow", "--idle", "2.5"]).exit_code == 0
    (order,) = executed.orders
    planned = order.migration
    assert (planned.partitions, planned.groups, planned.partitioner, planned.records_max) == (6, ("a", "b", "c"), "crc32", 9)
    assert (order.cores, executed.asked) == ("2", [("follow", 2.5)])
    assert planned.source_cluster.client.bootstrap_servers == "h:1"
    assert not planned.source_cluster.client.security.uses_sasl
    assert planned.target_cluster.client.bootstrap_servers == "there:1"
    assert planned.target_cluster.client.security.username == "u"


def test_no_groups_and_json(executed: Executed) -> None:
    done = CliRunner().invoke(main, [*ARGUMENTS, "--no-groups", "--json"])
    assert json.loads(done.stdout)["records"] == 3
    assert executed.orders[0].migration.groups == ()


def test_a_dry_run_with_a_plan(executed: Executed, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, [*ARGUMENTS, "--dry-run", "--plan", str(tmp_path / "plan.csv")])
    assert done.stdout == "5 records would be copied from wide to narrow\ngroup g would read 0 records again, from 0:1\n"
    assert (tmp_path / "plan.csv").read_text() == "g,narrow,0,1\n"
    assert executed.asked == ["forecast"]


def test_a_plan_that_cannot_be_written_is_a_sentence(executed: Executed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    done = CliRunner().invoke(main, [*ARGUMENTS, "--plan", str(tmp_path / "plan.csv")])
    assert done.exit_code == 1
    assert "plan.csv cannot be written (No space left on device); the rest is done. Run the same command again" in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--groups", "g", "--no-groups"], "--groups or --no-groups, not both"),
        (["--to-command-config", "f"], "--to-command-config belongs to --to-bootstrap-server"),
        (["--dry-run", "--follow"], "leave out --follow"),
        (["--idle", "3"], "--idle belongs to --follow"),
        (["--cores", "all"], "all is not a number of cores: write for example 2"),
        (["--cores", "0"], "0 is not a number of cores"),
        (["--plan", "/no/such/plan.csv"], "there is no directory /no/such"),
    ],
)
def test_options_that_contradict_each_other(executed: Executed, options: list[str], words: str) -> None:
    done = CliRunner().invoke(main, [*ARGUMENTS, *options])
    assert (done.exit_code, executed.orders) == (2, [])
    assert words in done.output


def test_it_offers_the_partitioners_that_there_are() -> None:
    assert f"[{'|'.join(PARTITIONERS)}]" in CliRunner().invoke(main, ["migrate", "--help"]).output
