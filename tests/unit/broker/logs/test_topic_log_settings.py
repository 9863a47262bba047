"""Settings of topics' logs: remembered until they change, and then given to the logs that are open."""

import asyncio

from ottla.broker.logs.partition import Partition
from ottla.broker.logs.topic_log_settings import TopicLogSettings, log_settings
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.topics import Topic
from ottla.core.model import TopicPartition
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles


def test_changed_settings_reach_open_logs_some_at_a_time(make_api) -> None:
    api = make_api()
    metadata: ClusterMetadata = api.cluster.cluster_metadata
    topic: Topic = api.cluster.topics.ensure("t")
    settings = TopicLogSettings(metadata)
    before = settings.of(topic)
    assert before == log_settings(metadata, topic)
    topic.configs["max.message.bytes"] = "77"
    assert settings.of(topic) is before
    opened = [Partition(TopicPartition("t", 0), PartitionLog(MemoryFiles(), "t-0", LogSettings())) for _ in range(300)]
    opened[0].deleted = True
    gone = Partition(TopicPartition("gone", 0), PartitionLog(MemoryFiles(), "gone-0", LogSettings()))

    async def change() -> None:
        settings.change(topic, [gone, *opened])
        assert settings.renewing is not None
        assert [each.log.settings.max_message_bytes == 77 for each in opened].count(True) == 254
        await settings.renewing
        assert settings.renewing is None

    asyncio.run(change())
    assert all(each.log.settings is settings.of(topic) for each in opened[1:])
    assert opened[0].log.settings == gone.log.settings == LogSettings()


def test_when_all_change_nothing_remembered_is_left(make_api) -> None:
    api = make_api()
    topic: Topic = api.cluster.topics.ensure("t")
    settings = TopicLogSettings(api.cluster.cluster_metadata)
    before = settings.of(topic)
    settings.change(None, ())
    assert settings.of(topic) is not before
    now = settings.of(topic)
    settings.forget("t")
    assert settings.of(topic) is not now
    assert settings.renewing is None
