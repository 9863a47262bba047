"""Topics read from their beginning."""

import asyncio
import threading

import pytest

from ottla.testing import Broker


def test_consume_waits_for_a_topic_and_its_records(ottla_broker: Broker) -> None:
    found: list[list[bytes | None]] = []
    reading = threading.Thread(target=lambda: found.append([record.value for record in ottla_broker.consume("totals", 2)]))
    reading.start()
    ottla_broker.produce("totals", [b"1"])
    ottla_broker.produce("totals", [b"2", b"3"])
    reading.join(30)
    assert found == [[b"1", b"2"]]


def test_consume_says_what_is_there_when_the_time_is_over(ottla_broker: Broker) -> None:
    ottla_broker.produce("totals", [b"1"])
    with pytest.raises(AssertionError, match=r"waited 0 s for: 2 records in topic totals: it has 1: b'1'"):
        ottla_broker.consume("totals", 2, timeout=0)
    with pytest.raises(AssertionError, match=r"waited 0 s for: 1 record in topic none: there is no such topic$"):
        ottla_broker.consume("none", 1, timeout=0)
    with pytest.raises(AssertionError, match=r"there is no such topic; did you mean 'totals'\?"):
        ottla_broker.consume("total", 1, timeout=0)
    ottla_broker.create_topic("none")
    with pytest.raises(AssertionError, match=r"1 record in topic none: it has 0$"):
        ottla_broker.consume("none", 1, timeout=0)


def test_coroutines_consume_while_their_loop_runs(ottla_broker: Broker) -> None:
    async def story() -> None:
        consuming = asyncio.create_task(ottla_broker.consume_async("totals", 1))
        await asyncio.sleep(0)
        ottla_broker.produce("totals", [b"1"])
        assert [record.value for record in await consuming] == [b"1"]
        with pytest.raises(AssertionError, match=r"waited 0 s for: 2 records in topic totals: it has 1: b'1'"):
            await ottla_broker.consume_async("totals", 2, timeout=0)

    asyncio.run(story())


def test_a_topic_that_does_not_exist_is_no_empty_topic(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("dead-letters")
    assert ottla_broker.values("dead-letters") == []
    with pytest.raises(AssertionError, match=r"topic dead-letter does not exist; did you mean 'dead-letters'\?"):
        ottla_broker.values("dead-letter")


def test_records_of_several_partitions_are_in_the_order_of_their_times(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("orders", 2, config={"retention.ms": -1})
    ottla_broker.produce("orders", [b"second"], partition=0, timestamp_ms=2_000)
    ottla_broker.produce("orders", [b"first"], partition=1, timestamp_ms=1_000)
    ottla_broker.produce("orders", [b"third"], partition=1, timestamp_ms=3_000)
    assert ottla_broker.values("orders") == [b"first", b"second", b"third"]
    (first, *_), offsets = ottla_broker.consume("orders", 3), [record.offset for record in ottla_broker.consume("orders", 3)]
    assert (first.topic, first.partition, first.timestamp_ms) == ("orders", 1, 1_000)
    assert offsets == [0, 0, 1]
