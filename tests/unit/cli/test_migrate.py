"""`ottla migrate`: clusters from options, the run, and what it prints."""

import json
import logging
import signal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JNetworkError

from ottla.cli import migrate as run
from ottla.cli.groups.resetting import read_plan
from ottla.cli.main import main
from ottla.cli.migrate import MigrationOrder, cluster, document, execute, plan, progress_bar, summary
from ottla.client.errors import ClientError
from ottla.protocol.model import TopicPartition
from ottla.spark import sessions
from ottla.spark.migration.job import Migrated
from ottla.spark.migration.offsets import Carried
from ottla.spark.migration.values import CRC32, MURMUR2, RECORDS_MAX, Migration, MigrationError, Progress

ARGUMENTS = ["migrate", "wide", "narrow", "--bootstrap-server", "h:1"]


class Executed:
    """The orders that were given; nothing is run but what is asked of the run."""

    def __init__(self) -> None:
        self.orders: list[MigrationOrder] = []
        self.asked: list[Any] = []

    def __call__(self, order: MigrationOrder, work: Any) -> Any:
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
    assert f"[{MURMUR2}|{CRC32}]" in CliRunner().invoke(main, ["migrate", "--help"]).output


def made(tmp_path: Path, text: str) -> object:
    file = tmp_path / "client.properties"
    file.write_text(text)
    return cluster("h:1", str(file), option="--bootstrap-server")


def test_reads_and_producers_get_what_is_theirs(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nclient.id=me\ncompression.type=zstd\nfetch.max.wait.ms=7\nsome.other=1\n")
    found = cluster("h:1", str(file), option="--bootstrap-server")
    producer = dict(found.producer.properties)
    assert (found.client.client_id, found.client.fetch_max_wait_ms, found.client.security.uses_tls) == ("me", 7, True)
    assert (producer["client.id"], producer["compression.type"], producer["security.protocol"]) == ("me", "zstd", "SSL")
    assert producer["bootstrap.servers"] == "h:1"


def test_without_a_file_records_with_a_header_more_are_taken() -> None:
    found = cluster("h:1", None, option="--bootstrap-server")
    assert dict(found.producer.properties)["message.max.bytes"] == 104_857_600
    assert found.client.client_id == "ottla-migrate"


@pytest.mark.parametrize(
    ("text", "words"),
    [("security.protocol=X", "security.protocol must be one of"), ("linger.ms=x", 'The option "kafka.linger.ms" must be')],
)
def test_a_file_that_makes_no_sense(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(click.ClickException, match=words):
        made(tmp_path, text)


def test_a_file_that_does_not_exist() -> None:
    with pytest.raises(click.ClickException, match="NoSuchFileException: nowhere"):
        cluster("h:1", "nowhere", option="--bootstrap-server")


def test_an_address_that_is_none() -> None:
    with pytest.raises(click.BadParameter, match=r"'nonsense' is no host:port: write for example 127\.0\.0\.1:9092"):
        cluster("nonsense", None, option="--to-bootstrap-server")


MIGRATED = Migrated(records=9, groups={"a\n": Carried({10: 4, 2: 3}, 5)})


def test_as_text() -> None:
    copied = summary("wide", "narrow", MIGRATED, is_forecast=False)
    assert copied == "9 records copied from wide to narrow\ngroup a\\n reads 5 records again, from 2:3, 10:4"
    forecast = summary("wide", "narrow", MIGRATED, is_forecast=True)
    assert forecast == "9 records would be copied from wide to narrow\ngroup a\\n would read 5 records again, from 2:3, 10:4"


def test_as_json() -> None:
    assert document("wide", "narrow", MIGRATED, is_forecast=True) == {
        "source": "wide",
        "target": "narrow",
        "dry_run": True,
        "records": 9,
        "gone": 0,
        "groups": {"a\n": {"replay": 5, "offsets": {"2": 3, "10": 4}}},
    }


def test_as_a_plan_that_ottla_groups_reads() -> None:
    text = plan("narrow", MIGRATED)
    assert text == '"a\n",narrow,2,3\n"a\n",narrow,10,4\n'
    assert read_plan(text, ()) == {"a": {TopicPartition("narrow", 2): 3, TopicPartition("narrow", 10): 4}}


def test_records_that_the_source_no_longer_has_are_told() -> None:
    words = summary("wide", "narrow", Migrated(records=9, groups={}, gone=4), is_forecast=False)
    assert words == "9 records copied from wide to narrow\n4 records of narrow are from an earlier run, and wide no longer has them"


class Session:
    """A Spark session that only counts how often it was stopped."""

    stopped = 0
    log_level = ""

    @property
    def sparkContext(self) -> "Session":
        return self

    def setLogLevel(self, level: str) -> None:
        self.log_level = level

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Session:
    found = Session()
    monkeypatch.setattr(sessions, "session", lambda *_arguments, **_options: found)
    return found


@pytest.fixture
def order() -> MigrationOrder:
    here = cluster("h:1", None, option="--bootstrap-server")
    planned = Migration(source_cluster=here, target_cluster=here, source="wide", target="narrow")
    return MigrationOrder(migration=planned, cores="1", what="migrating")


class SparkError(Exception):
    """As Spark reports what a worker raised."""


def fail(error: BaseException) -> Any:
    def work(_run: Any) -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MigrationError("topic wide does not exist"), "topic wide does not exist"),
        (ClientError("no broker answers"), "no broker answers"),
        (KeyboardInterrupt(), "interrupted: run the same command again, it continues"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's Java process has ended: run the same command again, it continues"),
        (SparkError("Job aborted\nottla.spark.migration.values.MigrationError: cannot write\n at x"), "cannot write"),
    ],
)
def test_a_failure_is_one_sentence(order: MigrationOrder, spark: Session, error: BaseException, words: str) -> None:
    with pytest.raises(click.ClickException) as raised:
        execute(order, fail(error))
    assert (raised.value.message, spark.stopped) == (words, 1)


def test_any_other_failure_is_not_hidden(order: MigrationOrder, spark: Session) -> None:
    with pytest.raises(SparkError):
        execute(order, fail(SparkError("out of memory")))


def test_the_result_is_that_of_the_work(order: MigrationOrder, spark: Session) -> None:
    assert execute(order, lambda _run: 5) == 5
    assert spark.stopped == 1


def test_the_bar_shows_progress_and_what_it_waits_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with progress_bar("migrating wide") as report:
        report(Progress(0, 0))
        report(Progress(50, 100, "the source to stand still"))
    assert "migrating wide, waits for the source to stand still" in capsys.readouterr().err


def test_without_a_terminal_each_tenth_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("migrating wide") as report:
        for done in (0, 1, 19, 20, 21, 100):
            report(Progress(done, 100))
        report(Progress(100, 104))
        report(Progress(104, 104))
    words = [f"migrating wide: {share} % of 100 offsets" for share in (0, 10, 20, 100)]
    assert capsys.readouterr().err.strip().splitlines() == words


def test_what_groups_read_again_is_printed_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("migrating wide") as report:
        for replay in (None, {}, {"a": 0, "b\n": 7}, {"a": 0, "b\n": 7}, {"a": 1}):
            report(Progress(5, 5, "the members of a to stop", replay))
    _, first, second = capsys.readouterr().err.strip().splitlines()
    words = "all is copied, waits for the members of a to stop; if groups continued in the new topic now, they would read records again:"
    assert (first, second) == (f"{words} a 0, b\\n 7", f"{words} a 1")


def test_ctrl_c_is_one_sentence_and_nothing_logs_it(order: MigrationOrder, spark: Session, caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(signal.SIGINT)

    def work(_run: Any) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            logging.getLogger().exception("as Py4J does")
            raise

    with pytest.raises(click.ClickException, match="interrupted: run the same command again"):
        execute(order, work)
    assert (spark.log_level, spark.stopped, caplog.records) == ("OFF", 1, [])
    assert signal.getsignal(signal.SIGINT) is before
    assert logging.getLogger().isEnabledFor(logging.ERROR)
