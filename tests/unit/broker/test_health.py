"""The picture of a broker's health."""

import json

from ottla.broker.growth import Grown
from ottla.broker.health import TOPICS_MAX, CleanerView, CleaningView, HealthView, PartitionView, picture
from ottla.core.cleaning.health import CleanerState, PartitionFault
from ottla.core.model import TopicPartition

HOUR = 3_600_000
NOW = 1_700_000_000_000


def part(topic: str, number: int = 0, size_bytes: int = 100, *, is_compacted: bool = False) -> PartitionView:
    return PartitionView(TopicPartition(topic, number), is_compacted, size_bytes, 5, 9)


def draw(cleaner: CleanerView, *partitions: PartitionView, offline: tuple[PartitionFault, ...] = ()) -> HealthView:
    return picture(
        cleaner=cleaner, partitions=partitions, offline=offline, grown=lambda _: Grown(120, HOUR), log_directory="/data", now_ms=NOW
    )


def test_topics_add_up_their_partitions() -> None:
    cleanings = {
        TopicPartition("c", 0): CleaningView(60, 50, 0.25, None, NOW - 3 * HOUR),
        TopicPartition("c", 1): CleaningView(40, 20, 0.75, NOW - HOUR, NOW - 4 * HOUR),
    }
    cleaner = CleanerView(is_enabled=True, threads=1, looked_ms=NOW, partitions=cleanings)
    view = draw(cleaner, part("plain", size_bytes=5000), part("c", 0, is_compacted=True), part("c", 1, is_compacted=True))
    compacted, plain = view.topics
    assert (compacted.name, compacted.partitions, compacted.size_bytes) == ("c", 2, 200)
    assert (compacted.dirty_bytes, compacted.cleanable_bytes, compacted.dirty_ratio) == (100, 70, 0.75)
    assert (compacted.overdue_ms, compacted.since_cleaned_ms) == (HOUR, 3 * HOUR)
    assert compacted.growth_bytes_per_hour == 120
    assert (plain.is_compacted, plain.dirty_bytes, plain.overdue_ms) == (False, 0, 0)
    assert not view.is_healthy
    assert "nothing of it was cleaned for 3 h" in view.findings[0].sentence


def test_the_state_of_the_cleaner() -> None:
    assert CleanerView(is_enabled=False).state is CleanerState.OFF
    assert CleanerView(is_enabled=True, threads=2, dead_threads=1).state is CleanerState.RUNNING
    assert CleanerView(is_enabled=True, threads=2, dead_threads=2).state is CleanerState.DEAD
    assert draw(CleanerView(is_enabled=True, threads=1, looked_ms=NOW - 10)).is_healthy
    assert not draw(CleanerView(is_enabled=True, threads=2, dead_threads=1)).is_healthy


def test_a_cleaner_at_work_is_not_idle() -> None:
    working = CleanerView(is_enabled=True, threads=1, looked_ms=NOW - 10 * HOUR, at_work=(TopicPartition("c", 0),))
    assert working.facts(NOW).idle_ms == 0
    assert CleanerView(is_enabled=True, threads=1, looked_ms=NOW - HOUR).facts(NOW).idle_ms == HOUR
    assert CleanerView(is_enabled=True, threads=1, looked_ms=NOW + HOUR, cleaned_ms=NOW + 5).facts(NOW).idle_ms == 0


def test_faults_are_findings() -> None:
    cleaner = CleanerView(is_enabled=True, threads=1, uncleanable=(PartitionFault("c", 0, "the batch at offset 3 is damaged", NOW),))
    view = draw(cleaner, offline=(PartitionFault("d", 1, "the disk is full", NOW),))
    assert [finding.subject for finding in view.findings if finding.is_ill] == ["partition c-0", "partition d-1"]


def test_very_many_topics_are_bounded() -> None:
    view = draw(
        CleanerView(is_enabled=True),
        *(part(f"t{number}", size_bytes=number) for number in range(TOPICS_MAX + 5)),
        part("c", is_compacted=True),
    )
    assert len(view.topics) == TOPICS_MAX
    assert view.topics_left_out == 6
    assert [topic.name for topic in view.topics[:2]] == ["c", f"t{TOPICS_MAX + 4}"]


def test_the_picture_as_json() -> None:
    name = TopicPartition("c", 0)
    cleaner = CleanerView(
        is_enabled=True,
        threads=1,
        looked_ms=NOW,
        at_work=(name,),
        uncleanable=(PartitionFault("u", 7, "damaged", 5),),
        partitions={name: CleaningView(60, 50, 0.25, None, None)},
    )
    told = json.loads(json.dumps(draw(cleaner, part("c", is_compacted=True)).to_json()))
    assert told["healthy"] is False
    assert told["cleaner"]["state"] == "running"
    assert told["cleaner"]["at_work"] == ["c-0"]
    assert told["cleaner"]["uncleanable"] == [{"topic": "u", "partition": 7, "reason": "damaged", "at_ms": 5}]
    assert told["topics"][0]["name"] == "c"
    assert told["topics"][0]["growth_bytes_per_hour"] == 120
    assert told["findings"][0]["is_ill"] is True
    assert "partitions" not in told["cleaner"]
