"""Partitions: opened at first use, with the settings in force, and gone with their topic."""

from ottla.broker.partitions import log_settings
from ottla.core.model import Record


def test_a_partitions_files_appear_with_its_first_append(api) -> None:
    topic = api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.get(topic, 0)
    assert not api.files.exists("t-0")
    partition.log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    assert api.files.exists("t-0/00000000000000000000.log")
    assert api.cluster.partitions.get(topic, 0) is partition


def test_what_there_is_not(api) -> None:
    topic = api.cluster.topics.ensure("t")
    assert api.cluster.partitions.get(topic, 1) is None
    assert api.cluster.partitions.get(topic, -1) is None
    assert api.cluster.partitions.by_name("gone", 0) is None


def test_a_logs_settings_are_the_topics_then_the_brokers(make_api) -> None:
    api = make_api({"log.segment.bytes": "2000000", "message.max.bytes": "555"})
    topic = api.cluster.topics.ensure("t")
    topic.configs["max.message.bytes"] = "77"
    settings = log_settings(api.cluster.catalogue, topic)
    assert (settings.segment_bytes, settings.max_message_bytes, settings.segment_ms) == (2000000, 77, 604800000)


def test_waiters_are_woken_and_told_of_the_end(api) -> None:
    topic = api.cluster.topics.ensure("t")
    partition = api.cluster.partitions.get(topic, 0)
    woken: list[bool] = []
    partition.waiters.add(lambda: woken.append(partition.deleted))

    async def grow_and_go() -> None:
        partition.grew()
        api.cluster.partitions.delete(topic)

    api.runner.run(grow_and_go())
    assert woken == [False, True]


def test_a_full_segment_is_made_durable_off_the_loop(make_api) -> None:
    api = make_api({"log.segment.bytes": "1048576"})
    partition = api.cluster.partitions.get(api.cluster.topics.ensure("t"), 0)

    async def fill() -> None:
        for _ in range(3):
            partition.log.append_records([Record(0, 5, None, bytes(700_000))], now_ms=5)
            partition.grew()
        assert partition.log.rolled_segments > 0
        await api.cluster.partitions.settle()

    api.runner.run(fill())
    assert (partition.log.rolled_segments, partition.syncing) == (0, None)


def test_a_torn_tail_is_cut_and_said(make_api, caplog) -> None:
    first = make_api()
    topic = first.cluster.topics.ensure("t")
    first.cluster.partitions.get(topic, 0).log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    first.files.open("t-0/00000000000000000000.log").append(b"torn")
    second = make_api(files=first.files)
    assert second.cluster.partitions.by_name("t", 0).log.log_end_offset == 1
    assert "t-0: 4 bytes of a torn tail were cut; the log ends at offset 1" in caplog.text
