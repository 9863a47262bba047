"""Create and delete topics with bare requests, on any broker."""

from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient


def create_topic(broker: RawClient | str, name: str, partitions: int = 1, *, replicas: int = 1, **configs: str) -> Any:
    """Create a topic, at a client's broker or at these bootstrap servers; return its id.

    The names of settings have "_" for ".". Raises AssertionError with the broker's error message.
    """
    if isinstance(broker, str):
        with RawClient(broker) as client:
            return create_topic(client, name, partitions, replicas=replicas, **configs)
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": settings}
    (created,) = broker.call(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=60_000).topics
    if created.error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {name} was not created: {ErrorCode(created.error_code).name}: {created.error_message}")
    return created.topic_id


def delete_topic(bootstrap_servers: str, name: str) -> None:
    """Delete a topic. Raises AssertionError with the broker's error."""
    with RawClient(bootstrap_servers) as client:
        topic = {"name": name, "topic_id": None}
        (deleted,) = client.call(ApiKey.DELETE_TOPICS, 6, topics=[topic], timeout=60_000).responses
    if deleted.error_code != ErrorCode.NONE:
        raise AssertionError(f"topic {name} was not deleted: {ErrorCode(deleted.error_code).name}: {deleted.error_message}")
