"""Old segments go, by size, by age and when all are old, on our broker and on Apache Kafka alike."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.cli.processes import OttlaProcess
from ottla.testing.waiting import wait_until

HOUR_MS = 3_600_000
LARGE = bytes(700_000)
"""Two of these do not fit into the smallest segment there may be (1 MiB)."""
OFTEN = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"}
SMALL_SEGMENTS = {"segment.bytes": "1048576", "file.delete.delay.ms": "100"}


def create(broker: Any, topic: str, **configs: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    config = {name.replace("_", "."): value for name, value in configs.items()} | SMALL_SEGMENTS
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(60)


def produce(broker: Any, topic: str, *ages_ms: int) -> None:
    """One record a segment, so many ms old."""
    from confluent_kafka import Producer

    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 1})
    now_ms = int(time.time() * 1000)
    for age_ms in ages_ms:
        producer.produce(topic, LARGE, timestamp=now_ms - age_ms, on_delivery=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(60) == 0
    assert not failures


def ends(broker: Any, topic: str) -> tuple[int, int]:
    """The first offset and the next one."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10, cached=False)
    consumer.close()
    return found


def read_from_start(broker: Any, topic: str) -> int:
    """The offset of the first record that a consumer gets which asks for offset 0."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got: list[Any] = []
    wait_until(lambda: got, "a record", lambda: got.extend(consumer.consume(1, 0.5)))
    consumer.close()
    assert got[0].error() is None
    return int(got[0].offset())


def test_retention_by_size_by_age_and_of_everything(new_broker: Callable[..., Any], unique_name: Callable[[str], str]) -> None:
    broker = new_broker(OFTEN)
    by_size, by_age, all_old, kept = (unique_name(what) for what in ("size", "age", "all", "kept"))
    create(broker, by_size, retention_bytes="1500000")
    create(broker, by_age, retention_ms=str(HOUR_MS))
    create(broker, all_old, retention_ms=str(HOUR_MS))
    create(broker, kept, retention_ms="-1", retention_bytes="-1")
    produce(broker, by_size, *[0] * 5)
    produce(broker, by_age, *[2 * HOUR_MS] * 3, 0, 2 * HOUR_MS)
    produce(broker, all_old, *[2 * HOUR_MS] * 3)
    produce(broker, kept, *[2 * HOUR_MS] * 3)

    # 3.5 MB less 0.7 and 0.7 is still 1.5 MB and more; less another 0.7 it is not.
    wait_until(lambda: ends(broker, by_size) == (2, 5), "two segments to go by size")
    # A young segment keeps the old ones behind it.
    wait_until(lambda: ends(broker, by_age) == (3, 5), "three segments to go by age")
    wait_until(lambda: ends(broker, all_old) == (3, 3), "every record to go, and the offsets to go on")
    assert ends(broker, kept) == (0, 3)
    assert read_from_start(broker, by_size) == 2
    produce(broker, all_old, 0)
    assert ends(broker, all_old) == (3, 4)
    assert read_from_start(broker, all_old) == 3


def test_what_retention_deleted_is_off_the_disk_and_stays_away(tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    with OttlaProcess(tmp_path / "data", config=OFTEN) as broker:
        create(broker, "flights", retention_ms=str(HOUR_MS))
        produce(broker, "flights", *[2 * HOUR_MS] * 3, 0)
        wait_until(lambda: ends(broker, "flights") == (3, 4), "three segments to go by age")

        def files() -> list[str]:
            return sorted(each.name for each in (tmp_path / "data/flights-0").iterdir() if each.stem.startswith("0000"))

        wait_until(lambda: not [name for name in files() if name.startswith("00000000000000000000")], "the files to be removed")
        assert [name for name in files() if name.endswith(".log")] == ["00000000000000000003.log"]
        broker.kill()
        broker.start()
        assert ends(broker, "flights") == (3, 4)


def test_retention_of_a_partition_that_was_not_used_since_the_start(tmp_path: Path) -> None:
    with OttlaProcess(tmp_path / "data") as broker:
        create(broker, "flights", retention_ms=str(HOUR_MS))
        produce(broker, "flights", *[2 * HOUR_MS] * 3, 0)
        broker.stop()
        broker.config = OFTEN
        broker.start()
        log = tmp_path / "data/flights-0/00000000000000000000.log"
        wait_until(lambda: not log.exists(), "the old segments to be removed")
        assert ends(broker, "flights") == (3, 4)
