"""Single calls of `ottla.AsyncConsumer` and of `aiokafka.AIOKafkaConsumer`, one after another on the same broker: equal results and errors.

Texts of errors may differ; their types, codes and flags may not, but for DIFFERENCES.
"""

import asyncio
import inspect
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

import ottla

SECONDS_MAX = 60
RECORD = (
    *("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value"),
    *("checksum", "serialized_key_size", "serialized_value_size", "headers"),
)
# What differs and is meant to. The list may only shrink.
DIFFERENCES = {
    # Wrong values are refused when the consumer is made; aiokafka fails at the start, later, or never.
    *("made with a wrong reset", "made with a wrong isolation level", "made with a wrong assignor", "made with rare heartbeats"),
    # A sentence, where aiokafka has a bare AssertionError or AttributeError, or notices nothing.
    *("subscribe to a number", "start again", "the high watermark of what is not assigned", "a record of a text", "assign a text"),
    *("the last poll of what is not assigned", "seek with a plain tuple", "unsubscribe before the start"),
    *("stopped: seek", "stopped: pause", "stopped: high watermark", "stopped: subscribe"),
    # A consumer that was stopped has no partitions, and commits nothing.
    *("stopped: assignment", "stopped: position", "stopped: commit", "stopped: committed"),
}


def shown(value: Any) -> Any:
    """A value of either library, comparable."""
    kind = type(value).__name__
    if kind in ("OffsetAndMetadata", "OffsetAndTimestamp", "TopicPartition"):
        return kind, *value
    if isinstance(value, ottla.ConsumerRecord | aiokafka.structs.ConsumerRecord):
        return {name: (type(getattr(value, name)).__name__, getattr(value, name)) for name in RECORD}
    if isinstance(value, dict):
        return {shown(key): shown(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return {shown(each) for each in value}
    return value if isinstance(value, str | bytes | int | float | None) else [shown(each) for each in value]


async def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or what it raises."""
    try:
        result = call()
        return shown(await asyncio.wait_for(result, SECONDS_MAX) if inspect.isawaitable(result) else result)
    except Exception as error:  # noqa: BLE001 - its type and flags are compared
        kind = ValueError if isinstance(error, ValueError) else type(error)
        return "raises", kind.__name__, getattr(error, "errno", None), getattr(error, "retriable", None)


async def outcomes(calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    return {name: await outcome(call) for name, call in calls.items()}


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.calls: list[tuple[str, set[Any]]] = []

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls.append(("revoked", set(revoked)))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls.append(("assigned", set(assigned)))


def made(make: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Consumers that can be made, and that cannot."""

    def call(**arguments: Any) -> None:
        make(**arguments)._closed = True  # aiokafka complains of consumers that were not stopped

    arguments: dict[str, dict[str, Any]] = {
        "nothing": {},
        "no records": {"max_poll_records": 0},
        "records as a text": {"max_poll_records": "5"},
        "an unknown argument": {"nonsense": 1},
        "a wrong reset": {"auto_offset_reset": "sometime"},
        "a wrong isolation level": {"isolation_level": "none"},
        "a wrong assignor": {"partition_assignment_strategy": ["nonsense"]},
        "a wrong protocol": {"security_protocol": "TLS"},
        "SASL without a password": {"security_protocol": "SASL_PLAINTEXT"},
        "a wrong mechanism": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "X"},
        "TLS without a context": {"security_protocol": "SSL"},
        "Kerberos' service": {"sasl_kerberos_service_name": "kafka", "sasl_kerberos_domain_name": None},
        "a timeout": {"consumer_timeout_ms": 1_000},
        "a list of servers": {"bootstrap_servers": ["localhost:1", "localhost:2"]},
        "two servers": {"bootstrap_servers": "localhost:1,localhost:2"},
        "a server without a port": {"bootstrap_servers": "localhost"},
        "a short poll interval": {"max_poll_interval_ms": 5_000},
        "rare heartbeats": {"heartbeat_interval_ms": 20_000},
        "a version": {"api_version": "auto"},
        "checksums": {"check_crcs": True, "exclude_internal_topics": True},
    }
    return {f"made with {name}": partial(call, **each) for name, each in arguments.items()}


async def called(make: Callable[..., Any], topic: str, group: str) -> dict[str, Any]:
    """Calls of a member, in this order. Partition 0 has ten records, partition 1 has one."""
    first, second, nowhere = (TopicPartition(topic, number) for number in (0, 1, 7))
    listener, consumer = Listener(), make(group_id=group, enable_auto_commit=False)
    before: dict[str, Callable[[], Any]] = {
        "no subscription": lambda: consumer.subscription(),
        "no assignment": lambda: consumer.assignment(),
        "unsubscribe before the start": lambda: consumer.unsubscribe(),
        "subscribe to a text": lambda: consumer.subscribe("abc"),
        "subscribe to topics and a pattern": lambda: consumer.subscribe(["a"], pattern="b"),
        "subscribe to nothing": lambda: consumer.subscribe(),
        "subscribe with a wrong listener": lambda: consumer.subscribe(["a"], listener=3),
        "subscribe to a wrong pattern": lambda: consumer.subscribe(pattern="["),
        "subscribe to a set": lambda: consumer.subscribe({topic}),
        "subscription": lambda: consumer.subscription(),
        "assign with a subscription": lambda: consumer.assign([first]),
        "subscribe to a pattern with a subscription": lambda: consumer.subscribe(pattern="x"),
        "subscribe to a number": lambda: consumer.subscribe([1]),
        "subscribe": lambda: consumer.subscribe([topic], listener=listener),
        "start": lambda: consumer.start(),
        "start again": lambda: consumer.start(),
        "the listener's calls": lambda: listener.calls,
    }
    reading: dict[str, Callable[[], Any]] = {
        "assignment": lambda: consumer.assignment(),
        "partitions": lambda: consumer.partitions_for_topic(topic),
        "partitions of an unknown topic": lambda: consumer.partitions_for_topic("nothing"),
        "topics": lambda: consumer.topics(),
        "nothing committed": lambda: consumer.committed(first),
        "committed of what does not exist": lambda: consumer.committed(nowhere),
        "position": lambda: consumer.position(first),
        "position of what is not assigned": lambda: consumer.position(nowhere),
        "the high watermark of what is not assigned": lambda: consumer.highwater(nowhere),
        "a record": lambda: consumer.getone(first),
        "a record of a text": lambda: consumer.getone("abc"),
        "three records": lambda: consumer.getmany(first, timeout_ms=5_000, max_records=3),
        "no records": lambda: consumer.getmany(max_records=0),
        "fewer than no records": lambda: consumer.getmany(max_records=-1),
        "records as a text": lambda: consumer.getmany(max_records="3"),
        "another partition": lambda: consumer.getmany(second, timeout_ms=5_000),
        "nothing in time": lambda: consumer.getmany(second, timeout_ms=20),
        "position after records": lambda: consumer.position(first),
        "high watermark": lambda: consumer.highwater(first),
        "last stable offset": lambda: consumer.last_stable_offset(first),
        "last poll": lambda: type(consumer.last_poll_timestamp(first)).__name__,
        "the last poll of what is not assigned": lambda: consumer.last_poll_timestamp(nowhere),
    }
    offsets: dict[str, Callable[[], Any]] = {
        "commit": lambda: consumer.commit(),
        "committed": lambda: consumer.committed(first),
        "commit an offset": lambda: consumer.commit({first: 2}),
        "commit an offset and metadata": lambda: consumer.commit({first: (3, "metadata")}),
        "commit aiokafka's values": lambda: consumer.commit({second: OffsetAndMetadata(1, "metadata")}),
        "committed then": lambda: consumer.committed(first),
        "commit what is not assigned": lambda: consumer.commit({nowhere: 2}),
        "commit a negative offset": lambda: consumer.commit({first: -1}),
        "commit nothing": lambda: consumer.commit({}),
        "commit a list": lambda: consumer.commit([1]),
        "commit a text": lambda: consumer.commit({first: "a"}),
        "commit of a text": lambda: consumer.commit({"t": 1}),
        "commit wrong metadata": lambda: consumer.commit({first: (1, 5)}),
        "seek": lambda: consumer.seek(first, 8),
        "records after a seek": lambda: consumer.getmany(first, timeout_ms=5_000),
        "seek to a negative offset": lambda: consumer.seek(first, -1),
        "seek to a text": lambda: consumer.seek(first, "a"),
        "seek what is not assigned": lambda: consumer.seek(nowhere, 1),
        "seek behind the end": lambda: consumer.seek(first, 1_000),
        "a record after a reset": lambda: consumer.getone(first),
        "seek with a plain tuple": lambda: consumer.seek((topic, 0), 1),
        "to the beginning": lambda: consumer.seek_to_beginning(first),
        "position at the beginning": lambda: consumer.position(first),
        "to the end": lambda: consumer.seek_to_end(first),
        "position at the end": lambda: consumer.position(first),
        "everything to the end": lambda: consumer.seek_to_end(),
        "to the beginning of what is not assigned": lambda: consumer.seek_to_beginning(nowhere),
        "to the beginning of a text": lambda: consumer.seek_to_beginning("t"),
        "to what is committed": lambda: consumer.seek_to_committed(),
        "to what is committed of what is not assigned": lambda: consumer.seek_to_committed(nowhere),
        "first offsets": lambda: consumer.beginning_offsets([first, second]),
        "ends": lambda: consumer.end_offsets([first, second]),
        "no ends": lambda: consumer.end_offsets([]),
        "offsets for times": lambda: consumer.offsets_for_times({first: 0, second: 2**50}),
        "offsets for negative times": lambda: consumer.offsets_for_times({first: -1}),
        "offsets for texts": lambda: consumer.offsets_for_times({first: "a"}),
        "offsets for no times": lambda: consumer.offsets_for_times({}),
        "pause": lambda: consumer.pause(first),
        "paused": lambda: consumer.paused(),
        "pause what is not assigned": lambda: consumer.pause(nowhere),
        "resume": lambda: consumer.resume(first),
        "resume what is not assigned": lambda: consumer.resume(nowhere),
        "paused no more": lambda: consumer.paused(),
        "stop": lambda: consumer.stop(),
        "stop again": lambda: consumer.stop(),
        "the listener's calls until the end": lambda: listener.calls,
    }
    stopped: dict[str, Callable[[], Any]] = {
        "a record": lambda: consumer.getone(),
        "records": lambda: consumer.getmany(),
        "commit": lambda: consumer.commit(),
        "committed": lambda: consumer.committed(first),
        "position": lambda: consumer.position(first),
        "seek": lambda: consumer.seek(first, 1),
        "pause": lambda: consumer.pause(first),
        "high watermark": lambda: consumer.highwater(first),
        "subscription": lambda: consumer.subscription(),
        "assignment": lambda: consumer.assignment(),
        "next": lambda: consumer.__anext__(),
        "iteration": lambda: consumer.__aiter__(),
        "subscribe": lambda: consumer.subscribe([topic]),
        "unsubscribe": lambda: consumer.unsubscribe(),
    }
    return {
        **await outcomes(before | reading | offsets),
        **await outcomes({f"stopped: {name}": call for name, call in stopped.items()}),
    }


async def called_otherwise(make: Callable[..., Any], topic: str, group: str) -> dict[str, Any]:
    """Calls without a group, without an offset to begin at, and with deserializers."""
    first, second = (TopicPartition(topic, number) for number in (0, 1))
    alone, lost = make(), make(group_id=f"{group}-lost", auto_offset_reset="none")
    read = make(topic, group_id=f"{group}-read", key_deserializer=lambda key: key and key.decode(), value_deserializer=int)
    failing = make(topic, group_id=f"{group}-failing", value_deserializer=lambda value: 1 / 0)
    lost.assign([first, second])
    calls: dict[str, Callable[[], Any]] = {
        "no group: assign": lambda: alone.assign([first, second]),
        "no group: start": lambda: alone.start(),
        "no group: a record": lambda: alone.getone(second),
        "no group: commit": lambda: alone.commit(),
        "no group: committed": lambda: alone.committed(first),
        "no group: subscription": lambda: alone.subscription(),
        "no group: position": lambda: alone.position(second),
        "no group: to what is committed": lambda: alone.seek_to_committed(),
        "assign a text": lambda: alone.assign(["t"]),
        "assign nothing": lambda: alone.assign([]),
        "no group: stop": lambda: alone.stop(),
        "no offset: start": lambda: lost.start(),
        "no offset: a record": lambda: lost.getone(),
        "no offset: records": lambda: lost.getmany(timeout_ms=1_000),
        "no offset: seek": lambda: lost.seek(first, 1_000),
        "no offset: out of range": lambda: lost.getone(first),
        "no offset: stop": lambda: lost.stop(),
        "deserializers: start": lambda: read.start(),
        "deserializers: a record": lambda: read.getone(first),
        "deserializers: records": lambda: read.getmany(first, timeout_ms=5_000, max_records=2),
        "deserializers: stop": lambda: read.stop(),
        "failing deserializer: start": lambda: failing.start(),
        "failing deserializer: a record": lambda: failing.getone(first),
        "failing deserializer: records": lambda: failing.getmany(first, timeout_ms=1_000),
        "failing deserializer: stop": lambda: failing.stop(),
    }
    return await outcomes(calls)


@pytest.mark.filterwarnings("ignore:The `?api_version:DeprecationWarning")
def test_calls_are_aiokafkas(kafka_broker: Any, unique_name: Callable[[str], str], library_on: Callable[..., Any]) -> None:
    topic, now_ms = unique_name("calls"), time.time_ns() // 1_000_000
    library_on(kafka_broker).create_topic(topic, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for number in range(10):
        headers: Any = [("h", b"x"), ("n", None)] if number % 3 else None
        producer.produce(topic, b"%d" % number, b"k" if number % 2 else None, 0, headers=headers, timestamp=now_ms + number)
    producer.produce(topic, None, b"key", 1, timestamp=now_ms)
    assert producer.flush(SECONDS_MAX) == 0

    async def calls(kind: Any) -> dict[str, Any]:
        group = unique_name("group")
        make = partial(kind, bootstrap_servers=kafka_broker.bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=50)

        def with_more(*topics: str, **arguments: Any) -> Any:
            return kind(*topics, **{**make.keywords, **arguments})

        return {
            **await outcomes(made(with_more)),
            **await called(with_more, topic, group),
            **await called_otherwise(with_more, topic, group),
        }

    theirs, ours = asyncio.run(calls(aiokafka.AIOKafkaConsumer)), asyncio.run(calls(ottla.AsyncConsumer))
    assert len(theirs) > 130
    differing = {name: (ours[name], theirs[name]) for name in theirs if ours[name] != theirs[name]}
    assert [(name, *values) for name, values in differing.items() if name not in DIFFERENCES] == []
    assert DIFFERENCES - differing.keys() == set(), "equal by now: leave them out"
