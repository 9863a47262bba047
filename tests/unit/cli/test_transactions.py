"""`ottla transactions`: who holds readers back, what hangs, JSON, widths and mistakes. Beside Kafka's tool: tests/kafka."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from ottla.broker import Broker
from ottla.cli import transactions
from ottla.cli.main import main
from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import ActiveProducer, DescribedTransaction, Failure, PartitionTransaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.testing.raw_client import RawClient, create_topic
from tests.support.clients.transaction_script import Script

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker on which the id "billing" has a transaction open in orders-0 and orders-1, with a record in orders-0."""
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", 2)
        script = Script(client, "orders", "billing")
        script.init()
        script.add()
        script.produce()
        yield broker


def run(broker: Broker, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["transactions", "--bootstrap-server", broker.bootstrap_servers, *arguments])


def test_who_holds_readers_back(broker: Broker) -> None:
    for arguments in (
        ("list",),
        ("describe", "--transactional-id", "billing"),
        ("describe-producers", "--topic", "orders", "--partition", "0"),
    ):
        result = run(broker, *arguments)
        assert result.exit_code == 0
        held = "orders-0: readers with isolation.level=read_committed wait at offset 0 for transactional id billing (producer 0, epoch 0)"
        assert result.stderr.startswith(held)
        assert "(transaction.timeout.ms=60000)" in result.stderr
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert [each.startswith(held) for each in json.loads(run(broker, *arguments, "--json").stdout)["readers_wait"]] == [True]
    assert run(broker, "describe-producers", "--topic", "orders", "--partition", "1").stderr == ""


WAITING = "Consumer group readers has a lag of 1 in orders-0, all of it behind an open transaction. orders-0: readers with"


def test_a_lag_behind_an_open_transaction_is_named(broker: Broker, tmp_path: Path) -> None:
    server = ["--bootstrap-server", broker.bootstrap_servers]
    with AdminClient(broker.bootstrap_servers) as admin:
        admin.commit("readers", {ZERO: 0, ONE: 0})
        admin.commit("beyond", {ZERO: 1})
    described = CliRunner().invoke(main, ["groups", *server, "--describe", "--all-groups"])
    assert described.stderr.count("behind an open transaction") == 1
    assert WAITING in described.stderr
    assert described.stdout.count("orders") == 3
    document = json.loads(CliRunner().invoke(main, ["groups", *server, "--describe", "--group", "readers", "--json"]).stdout)
    assert [each.startswith(WAITING) for each in document["waiting"]] == [True]
    assert "waiting" not in json.loads(CliRunner().invoke(main, ["groups", *server, "--describe", "--group", "beyond", "--json"]).stdout)
    diagnosed = CliRunner().invoke(main, ["diagnose", *server])
    assert diagnosed.exit_code == 0
    assert WAITING in " ".join(diagnosed.stdout.replace("\n-", "\n").split())
    page = tmp_path / "page.html"
    CliRunner().invoke(main, ["report", *server, "--output", str(page)])
    assert WAITING in page.read_text()


def test_a_client_of_these_apis(broker: Broker) -> None:
    with AdminClient(broker.bootstrap_servers) as admin:
        described = admin.describe_transactions(["billing", "nobody"])
        assert described["nobody"] == Failure(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        billing = described["billing"]
        assert isinstance(billing, DescribedTransaction)
        assert (billing.state, billing.partitions, billing.timeout_ms) == ("Ongoing", (ZERO, ONE), 60_000)
        assert (admin.last_stable_offsets([ZERO, ONE]), admin.list_offsets([ZERO, ONE], -1)) == ({ZERO: 0, ONE: 0}, {ZERO: 1, ONE: 0})
        opened = admin.first_open_transactions([ZERO, ONE])
        assert [(partition, each.transactional_id, each.is_hanging) for partition, each in opened.items()] == [(ZERO, "billing", False)]
        assert admin.describe_producers([TopicPartition("orders", 7)], broker_id=1)[TopicPartition("orders", 7)] == Failure(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )


def test_abort_and_force_terminate() -> None:
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "orders", 2)
        script = Script(client, "orders", "billing")
        script.init()
        script.add()
        script.produce()
        assert run(broker, "abort", "--topic", "orders", "--partition", "0", "--start-offset", "0").exit_code == 0
        with AdminClient(broker.bootstrap_servers) as admin:
            assert admin.first_open_transactions([ZERO]) == {}
            assert run(broker, "forceTerminateTransaction", "--transactionalId", "billing").exit_code == 0
            assert [each.state for each in admin.list_transactions()] == ["Empty"]
        script.end()
        assert script.said[-1] == ("end", ErrorCode.PRODUCER_FENCED)


DESCRIBED = DescribedTransaction("billing", BrokerEndpoint(1, "a", 1), "Ongoing", 7, 3, 60_000, 1_000_000, (ONE,))
PRODUCER = ActiveProducer(7, 3, 12, 990_000, 5, 42)


class Hanging:
    """Stands for a cluster on which producer 7 has transactions in two partitions, of which its coordinator knows orders-1 alone."""

    def describe_producers(self, partitions: Any, *, broker_id: int | None) -> Any:
        return dict.fromkeys(partitions, (PRODUCER, PRODUCER._replace(producer_id=8, transaction_start_offset=None)))

    def describe_producer_ids(self, producer_ids: set[int]) -> Any:
        assert producer_ids <= {7}
        return {7: DESCRIBED}


def test_what_hangs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_partitions", lambda admin, topic, broker_id: [ZERO, ONE])
    monkeypatch.setattr(transactions, "_now_ms", lambda: 990_000 + 20 * 60_000)
    options = {"topic": "orders", "partition": None, "broker_id": None, "max_transaction_timeout": 15}
    transactions._find_hanging(Hanging(), options, transactions._Output(as_json=False))  # type: ignore[arg-type]
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "Topic  Partition Producer Producer Coordinator Start  Last      Duration",
        "                 Id       Epoch    Epoch       Offset Timestamp (min)",
        "orders 0         7        3        5           42     990000    20",
    ]
    assert printed.err == (
        "orders-0: readers with isolation.level=read_committed wait at offset 42 for transactional id billing (producer 7, epoch 3), whose"
        " transaction hangs there: no coordinator will end it. Its last record is of 20 min ago (1970-01-01T00:16:30Z);"
        " ottla transactions abort --topic orders --partition 0 --start-offset 42 ends it.\n"
    )
    monkeypatch.setattr(transactions, "_now_ms", lambda: 990_000 + 15 * 60_000)
    transactions._find_hanging(Hanging(), options, transactions._Output(as_json=True))  # type: ignore[arg-type]
    assert json.loads(capsys.readouterr().out) == {"hanging": [], "readers_wait": []}


def test_in_words() -> None:
    opened = PartitionTransaction(ONE, 42, PRODUCER, DESCRIBED)
    assert opened.in_words(1_042_000).endswith(
        "whose transaction began 42 s ago (1970-01-01T00:16:40Z); unless it ends, it is aborted in 18 s (transaction.timeout.ms=60000)"
    )
    assert "aborted soon" in opened.in_words(1_060_000)
    assert "is ending (PrepareCommit)" in opened._replace(transaction=DESCRIBED._replace(state="PrepareCommit")).in_words(1_042_000)
    unknown = opened._replace(transaction=None)
    assert "wait at offset 42 for producer 7, epoch 3, whose transaction hangs there" in unknown.in_words(1_042_000)
    pending = TopicPartition("__consumer_offsets", 1)
    described = DESCRIBED._replace(partitions=(pending,))
    assert "groups wait for their pending offsets" in PartitionTransaction(pending, 0, PRODUCER, described).in_words(1_042_000)


def test_wide_and_narrow_tables() -> None:
    titles = ("ProducerId", "TransactionState")
    assert transactions.table_lines(titles, [("1", "Empty")]) == ["ProducerId  TransactionState", "1           Empty"]
    wide = transactions.table_lines(titles, [("1", "x" * 75)])
    assert wide == ["Producer TransactionState", "Id", "1        " + "x" * 75]


def test_mistakes(broker: Broker) -> None:
    for arguments, words in (
        (("describe",), "Missing option '--transactional-id'"),
        (("find-hanging", "--topic", "t", "--partition", "x"), "not a valid integer"),
        (("find-hanging", "--topic", "nowhere"), "Failed to describe topic nowhere: This server does not host"),
        (("abort", "--topic", "orders", "--partition", "1", "--start-offset", "5"), "Could not find any open transactions"),
        (("no-such",), "No such command"),
    ):
        result = run(broker, *arguments)
        assert (result.exit_code, result.stdout) == (1, ""), arguments
        assert words in result.stderr
    bare = CliRunner().invoke(main, ["transactions", "list"])
    assert (bare.exit_code, bare.stderr) == (1, "argument --bootstrap-server is required\n")
    behind = CliRunner().invoke(main, ["transactions", "list", "--bootstrap-server", broker.bootstrap_servers])
    assert behind.exit_code == 0


def test_completion() -> None:
    complete = ShellComplete(main, {}, "ottla", "_OTTLA_COMPLETE")
    assert [each.value for each in complete.get_completions(["transactions"], "d")] == ["describe", "describe-producers"]
    assert [each.value for each in complete.get_completions(["transactions", "abort"], "--start")] == ["--start-offset"]
