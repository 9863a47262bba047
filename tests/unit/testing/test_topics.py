"""A topic is created as asked; a refusal is an error."""

import pytest

from ottla.broker import Broker
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.topics import create_topic


def test_a_topic_with_partitions_and_settings() -> None:
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        topic_id = create_topic(client, "flights", 3, cleanup_policy="compact")
        (topic,) = client.call(ApiKey.METADATA, 12, topics=[{"name": "flights"}]).topics
        assert (topic.topic_id, len(topic.partitions)) == (topic_id, 3)
        resource = {"resource_type": 2, "resource_name": "flights", "configuration_keys": ["cleanup.policy"]}
        (described,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
        assert [config.value for config in described.configs] == ["compact"]


def test_a_refusal_is_an_error() -> None:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "flights")
        with pytest.raises(AssertionError, match="topic flights was not created: TOPIC_ALREADY_EXISTS: Topic 'flights' already exists"):
            create_topic(broker.bootstrap_servers, "flights")
