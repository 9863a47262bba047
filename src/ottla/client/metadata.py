"""Metadata requests: version 12 where the broker supports it (topic ids, KIP-516), else 9. No request creates a topic.

It knows the message and its versions; `brokers` chooses the broker and retries.
"""

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kio.schema.metadata.v9.request import MetadataRequest as Request9
from kio.schema.metadata.v9.request import MetadataRequestTopic as Topic9
from kio.schema.metadata.v9.response import MetadataResponse as Response9
from kio.schema.metadata.v12.request import MetadataRequest as Request12
from kio.schema.metadata.v12.request import MetadataRequestTopic as Topic12
from kio.schema.metadata.v12.response import MetadataResponse as Response12
from kio.schema.types import TopicName

from ottla.client.addresses import BrokerEndpoint
from ottla.client.errors import error_code
from ottla.client.network.connection import BrokerConnection
from ottla.core.client.leaders import LeaderAndEpoch, PartitionMetadata, TopicMetadata
from ottla.core.wire.api_keys import ApiKey

WITH_IDS: Final = 12


class BrokersAndTopics(NamedTuple):
    """The brokers of a cluster by their ids, and the requested topics; the controller's id is -1 where there is none."""

    endpoints: dict[int, BrokerEndpoint]
    topics: tuple[TopicMetadata, ...]
    cluster_id: str | None = None
    controller_id: int = -1


def request_metadata(connection: BrokerConnection, topics: Sequence[str] | None) -> BrokersAndTopics:
    """The cluster as one broker knows it, with `topics`; None: with all topics."""
    request, response_class = metadata_request(topics, with_ids=connection.speaks(ApiKey.METADATA, WITH_IDS))
    return read_metadata(connection.call(request, response_class))


def metadata_request(topics: Sequence[str] | None, *, with_ids: bool) -> tuple[Any, Any]:
    """A request, and the class of its response; `with_ids`: of the version that has topic ids."""
    if with_ids:
        names12 = None if topics is None else tuple(Topic12(topic_id=None, name=TopicName(name)) for name in topics)
        return Request12(topics=names12, allow_auto_topic_creation=False, include_topic_authorized_operations=False), Response12
    names9 = None if topics is None else tuple(Topic9(name=TopicName(name)) for name in topics)
    request9 = Request9(
        topics=names9,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return request9, Response9


def topic_id_text(topic_id: uuid.UUID | None) -> str:
    """A topic id as Kafka prints it: 22 letters of base64; "" for none."""
    return "" if topic_id is None or topic_id.int == 0 else urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def read_metadata(answer: Any) -> BrokersAndTopics:
    """A response of either version."""
    racks = {broker.node_id: broker.rack for broker in answer.brokers if broker.rack}
    return BrokersAndTopics(
        {int(broker.node_id): BrokerEndpoint(int(broker.node_id), broker.host, int(broker.port)) for broker in answer.brokers},
        tuple(
            TopicMetadata(
                topic.name,
                error_code(topic.error_code),
                topic_id_text(getattr(topic, "topic_id", None)),
                topic.is_internal,
                {
                    int(item.partition_index): PartitionMetadata(
                        error_code(item.error_code),
                        LeaderAndEpoch(int(item.leader_id), int(item.leader_epoch)),
                        frozenset(racks[replica] for replica in item.replica_nodes if replica in racks),
                        item.replica_nodes,
                        item.isr_nodes,
                    )
                    for item in topic.partitions
                },
            )
            for topic in answer.topics
            if topic.name is not None
        ),
        answer.cluster_id,
        int(answer.controller_id),
    )
