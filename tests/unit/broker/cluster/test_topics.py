"""Topics: made once, changed at once, and never half."""

from ottla.core.errors import ApiError
from ottla.core.metadata.resource_configs import TOPIC_RESOURCE
from ottla.core.metadata.topics import CONSUMER_OFFSETS, NewTopic, Topic


def test_ensure_topic_makes_a_topic_once(api) -> None:
    made = api.cluster.topics.ensure("t")
    assert api.cluster.topics.ensure("t") is made
    assert isinstance(api.cluster.topics.ensure("bad name"), ApiError)


def test_only_checking_makes_nothing(api) -> None:
    imagined = api.cluster.topics.create(NewTopic(name="t", partitions=3), validate_only=True)
    assert isinstance(imagined, Topic)
    assert len(imagined.leaders) == 3
    assert api.cluster.topics.get("t") is None


def test_the_brokers_own_topics_have_settings_of_their_own(api) -> None:
    offsets = api.cluster.topics.ensure(CONSUMER_OFFSETS)
    assert (len(offsets.leaders), offsets.configs["cleanup.policy"], offsets.configs["segment.bytes"]) == (50, "compact", "104857600")


def test_changed_settings_reach_open_logs(api) -> None:
    topic = api.cluster.topics.ensure("t")
    log = api.cluster.partitions.get(topic, 0).log
    assert api.cluster.topics.alter_config(TOPIC_RESOURCE, "t", [("segment.ms", 0, "77")]) is None
    assert log.settings.segment_ms == 77
