"""Every refusal comes with advice."""

import pytest

from ottla.client.property_refusals import REFUSED
from ottla.client.settings import parse_client_settings

# What Apache Kafka 4.3's ConsumerConfig has beside security, and this client does not take.
OF_KAFKA = [
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "config.providers",
    "enable.auto.commit",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "key.deserializer",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "socket.connection.setup.timeout.max.ms",
    "value.deserializer",
]


@pytest.mark.parametrize("name", OF_KAFKA)
def test_a_property_of_kafka_s_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} is not supported: .*(leave it out|set .* instead|: set )"):
        parse_client_settings({"bootstrap.servers": "a:1", name: "1"})


def test_every_reason_is_a_sentence_s_end() -> None:
    assert all((not why.endswith(".") and why[0].islower()) or why.startswith("Java") for why in REFUSED.values())
