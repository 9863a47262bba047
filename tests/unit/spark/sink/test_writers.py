"""The sink without Spark: options and modes when a query is planned, and one task from its first batch to its last acknowledgement."""

import pickle
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pyspark.sql.types import StringType, StructField, StructType

from ottla.broker import Broker
from ottla.client.deadlines import NoBrokerReachedError
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.spark.options.values import OptionError
from ottla.spark.sink import writers
from ottla.spark.sink import writers as overwriting
from ottla.spark.sink.senders import DeliveryError, SenderPool
from ottla.spark.sink.writers import (
    FirstContact,
    Written,
    batch_sink,
    check_nothing_is_replaced,
    is_first_micro_batch,
    parse_first_contact,
    parse_sink_options,
    send,
    send_in_transaction,
    stream_sink,
)
from ottla.testing import Broker as BrokerWithVerbs
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until

OPTIONS = {"kafka.bootstrap.servers": "h:1", "topic": " t "}
VALUE = StructType([StructField("value", StringType())])


def batch(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values)})


def test_options_are_read_in_any_case_of_letters():
    settings = parse_sink_options({"Kafka.Bootstrap.Servers": "h:1", "TOPIC": " t ", "checkpointLocation": "/x"})
    assert (settings.topic, settings.producer.bootstrap_servers) == ("t", "h:1")
    assert parse_sink_options({"kafka.bootstrap.servers": "h:1"}).topic is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"foo": "x"}, 'The option "foo" is not supported for writing'),
        ({"subscribe": "x"}, 'The option "subscribe" is not supported for writing: name the topic with the option "topic"'),
        ({"acks": "all"}, 'write "kafka.acks"'),
        ({"path": "x"}, "A path means nothing here"),
        ({"kafka.acks": "x"}, 'The option "kafka.acks" must be one of'),
    ],
)
def test_an_unsupported_option_is_refused(options: dict[str, str], said: str):
    with pytest.raises(OptionError, match=said):
        batch_sink({**OPTIONS, **options}, VALUE, overwrite=False, check=Mock(side_effect=AssertionError))


def test_overwriting_is_checked_with_the_brokers_of_the_options(monkeypatch: pytest.MonkeyPatch):
    checked: list[FirstContact] = []
    reached: list[FirstContact] = []
    monkeypatch.setattr(overwriting, "check_nothing_is_replaced", checked.append)
    secret = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN", "kafka.linger.ms": "5"}
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    options = {**OPTIONS, **secret, "kafka.sasl.jaas.config": jaas}
    batch_sink(options, VALUE, overwrite=False, check=reached.append)
    assert (checked, len(reached)) == ([], 1)
    batch_sink(options, VALUE, overwrite=True, check=reached.append)
    assert [*checked, *checked] == reached
    [contact] = checked
    assert (contact.topic, contact.client.bootstrap_servers, contact.client.security.uses_sasl) == ("t", "h:1", True)


def test_a_batch_appends_and_a_stream_appends_in_every_mode():
    for made in (batch_sink(OPTIONS, VALUE, overwrite=False, check=lambda contact: None), stream_sink(OPTIONS, VALUE)):
        assert pickle.loads(pickle.dumps(made))._settings == made._settings
    with pytest.raises(OptionError, match="Required attribute 'value' not found"):
        stream_sink(OPTIONS, StructType([StructField("key", StringType())]))


def test_a_task_ends_when_all_is_acknowledged_and_leaves_its_producer_to_the_next(producers: Any):
    pool, settings = SenderPool(), parse_sink_options(OPTIONS)
    assert send(settings, iter([batch("a", "b"), batch("c")]), pool) == Written(3)
    assert send(settings, iter([batch("d"), batch()]), pool) == Written(1)
    (made,) = producers.made
    assert [each["value"] for each in made.sent] == [b"a", b"b", b"c", b"d"]
    assert made.asked == ["t", "t"]
    assert send(settings, iter([]), pool) == Written(0)


def test_only_the_tasks_of_the_first_micro_batch_look_for_their_brokers(producers: Any, monkeypatch: pytest.MonkeyPatch):
    checked: list[FirstContact] = []
    monkeypatch.setattr(FirstContact, "check", lambda contact: checked.append(contact))
    monkeypatch.setattr(writers, "is_first_micro_batch", lambda context: not checked)
    sink = stream_sink({**OPTIONS, "kafka.max.block.ms": "200"}, VALUE)
    assert [sink.write(iter([batch("a")])), sink.write(iter([batch("b")]))] == [Written(1), Written(1)]
    [contact] = checked
    assert (contact.topic, contact.timeout_ms) == ("t", 200)


def test_a_failed_task_discards_its_producer(producers: Any):
    pool, settings = SenderPool(), parse_sink_options(OPTIONS)
    producers.fails = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(DeliveryError, match="the broker takes no batch so large"):
        send(settings, iter([batch("a")]), pool)
    producers.fails = None

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch("b")
        raise ValueError("what Spark hands over breaks off")

    with pytest.raises(ValueError, match="breaks off"):
        send(settings, broken(), pool)
    assert [made.is_purged for made in producers.made] == [True, True]
    send(settings, iter([batch("c")]), pool)
    assert len(producers.made) == 3


def options(servers: str, **more: str) -> Mapping[str, str]:
    return {"Kafka.Bootstrap.Servers": servers, "kafka.linger.ms": "5", "topic": "t", **more}


def test_a_broker_that_cannot_be_reached_is_named_in_the_time_that_was_set():
    contact = parse_first_contact(options("localhost:1", **{"kafka.max.block.ms": "100"}), "t", 100)
    with pytest.raises(NoBrokerReachedError, match=r"no broker of bootstrap\.servers was reached in 100 ms .*broker localhost:1: "):
        contact.check()
    assert parse_first_contact(options("localhost:1"), "t", 60_000).timeout_ms == 5_000


def test_a_topic_that_is_there_one_that_is_missing_and_none_are_accepted():
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t", 2)
        for topic in ("t", "missing", None):
            parse_first_contact(options(broker.bootstrap_servers), topic, 60_000).check()


@pytest.mark.parametrize(("batch_id", "is_first"), [("0", True), ("1", False), (None, False)])
def test_the_first_micro_batch_of_a_stream(batch_id: str | None, is_first: bool):
    context: Any = SimpleNamespace(getLocalProperty={"streaming.sql.batchId": batch_id}.get)
    assert is_first_micro_batch(context) is is_first
    assert not is_first_micro_batch(None)


CLIENT = ClientSettings(bootstrap_servers="localhost:9092")


def of(topic: str | None) -> FirstContact:
    return FirstContact(CLIENT, topic, 700)


def test_a_topic_without_records_or_a_missing_one_is_accepted(cluster: Any):
    cluster.topic("emptied", (7, 7), (0, 0))
    for topic in ("emptied", "missing"):
        check_nothing_is_replaced(of(topic), connect=cluster.connect)
    assert not cluster.is_open
    assert cluster.bootstrap_timeouts == [700, 700]


def test_records_are_not_replaced(cluster: Any):
    cluster.topic("t", (0, 0), (7, 8))
    with pytest.raises(OptionError, match=r"not allowed for topic t, which has records, .*: write with mode\(\"append\"\)"):
        check_nothing_is_replaced(of("t"), connect=cluster.connect)
    with pytest.raises(OptionError, match='needs the option "topic"'):
        check_nothing_is_replaced(of(None), connect=cluster.connect)


def test_a_topic_that_may_not_be_described_is_not_overwritten(cluster: Any):
    cluster.refusals["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(OptionError, match="cannot look at topic secret: TOPIC_AUTHORIZATION_FAILED"):
        check_nothing_is_replaced(of("secret"), connect=cluster.connect)


def transactional(broker: Broker, **more: str) -> writers.SinkSettings:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "transactionalIdPrefix": "flights", **more}
    return parse_sink_options(options)


@pytest.fixture(scope="module")
def transactions_broker() -> Iterator[BrokerWithVerbs]:
    """A broker whose topic t has one partition."""
    with BrokerWithVerbs() as broker:
        broker.create_topic("t", 1)
        yield broker


def test_a_task_in_a_transaction_is_seen_whole_or_not_at_all(transactions_broker: BrokerWithVerbs) -> None:
    broker = transactions_broker
    seen = []

    def batches(*, fails: bool) -> Iterator[pa.RecordBatch]:
        yield batch("a", "b")
        yield batch("c")
        wait_until(broker.transactions, "the first record to be sent")
        seen.append((list(broker.transactions()), broker.values("t")))
        if fails:
            raise RuntimeError("the query was stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        send_in_transaction(transactional(broker), batches(fails=True), task=3)
    broker.wait_for_no_transactions()
    assert (seen.pop(), broker.values("t")) == ((["flights-3"], []), [])
    assert send_in_transaction(transactional(broker), batches(fails=False), task=3).records == 3
    broker.wait_for_no_transactions()
    assert broker.values("t") == [b"a", b"b", b"c"]
    assert send_in_transaction(transactional(broker), iter([batch()]), task=4).records == 0


def test_the_next_attempt_ends_what_a_killed_one_left_open(transactions_broker: BrokerWithVerbs) -> None:
    broker = transactions_broker
    before = broker.values("t")

    def first() -> Iterator[pa.RecordBatch]:
        yield batch("lost")
        wait_until(lambda: list(broker.transactions()) == ["flights-5"], "the first record to be sent")
        assert send_in_transaction(transactional(broker), iter([batch("written")]), task=5).records == 1
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        send_in_transaction(transactional(broker), first(), task=5)
    broker.wait_for_no_transactions()
    assert broker.values("t") == [*before, b"written"]


def test_an_attempt_that_goes_on_after_the_next_one_began_writes_nothing(transactions_broker: BrokerWithVerbs) -> None:
    broker = transactions_broker
    before = broker.values("t")

    def fenced() -> Iterator[pa.RecordBatch]:
        yield batch("lost")
        wait_until(lambda: list(broker.transactions()) == ["flights-6"], "the first record to be sent")
        assert send_in_transaction(transactional(broker), iter([batch("once")]), task=6).records == 1
        yield batch("late", "later")

    # Which sentence depends on where the library notices it: in a response, or when the transaction is to end.
    with pytest.raises(DeliveryError, match=r"the producer cannot continue: |Another attempt of this task has begun"):
        send_in_transaction(transactional(broker), fenced(), task=6)
    broker.wait_for_no_transactions()
    assert broker.values("t") == [*before, b"once"]


def test_options_of_transactions() -> None:
    settings = parse_sink_options({**OPTIONS, "transactionalidprefix": " flights ", "kafka.transaction.timeout.ms": "90000"})
    properties = dict(settings.producer.properties)
    assert (settings.transactional_id_prefix, properties["transaction.timeout.ms"], properties["delivery.timeout.ms"]) == (
        "flights",
        90_000,
        90_000,
    )
    longer = dict(parse_sink_options({**OPTIONS, "transactionalIdPrefix": "f"}).producer.properties)
    assert longer["transaction.timeout.ms"] == longer["delivery.timeout.ms"] == 120_000
    for more, said in (
        ({"transactionalIdPrefix": " "}, 'The option "transactionalIdPrefix" is empty'),
        ({"kafka.transaction.timeout.ms": "90000"}, "is for transactions: set transactionalIdPrefix"),
        ({"transactionalIdPrefix": "f", "kafka.acks": "1"}, "Transactions need the idempotent producer"),
        ({"kafka.transactional.id": "f"}, "set the option transactionalIdPrefix"),
        ({"transactionalIdPrefx": "f"}, "did you mean 'transactionalIdPrefix'"),
    ):
        with pytest.raises(OptionError, match=said):
            parse_sink_options({**OPTIONS, **more})
