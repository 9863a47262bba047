"""What the APIs work on: the catalogue, the partitions, the groups, and who this broker is. One per broker, used from its loop alone."""

import base64
import logging
import uuid
from collections.abc import Callable

from ottla.broker.catalogue_log import CatalogueLog
from ottla.broker.clock import now_ms
from ottla.broker.events import GroupEvents
from ottla.broker.groups import Groups
from ottla.broker.partitions import Partitions
from ottla.broker.topics import Topics
from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, Catalogue, Refused
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
from ottla.core.model import GroupEvent
from ottla.storage.files import Files

log = logging.getLogger("ottla.broker.cluster")

META_PROPERTIES = "meta.properties"


def _kafka_uuid() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


class Cluster:
    """One broker's whole state. `host` and `port` are what clients are told, for every listener there is."""

    def __init__(
        self,
        files: Files,
        config: BrokerConfig,
        *,
        clock: Callable[[], int] = now_ms,
        on_group_event: Callable[[GroupEvent], None] | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.host = ""
        self.port = 0
        self.cluster_id = ""
        self.catalogue = Catalogue((config.node_id,), config.text)
        self.partitions = Partitions(files, self.catalogue, clock)
        self._files = files
        self._catalogue_log = CatalogueLog(files, self.catalogue, clock)
        self.topics = Topics(config, self._catalogue_log, self.partitions)
        self.events = GroupEvents(self.topics, self.partitions, clock, on_group_event)
        self.groups = Groups(config, self.topics, self.partitions, clock, self.events.publish)
        self._producer_id = self._producer_ids_end = 0

    def open(self) -> None:
        """Reads back what the directory holds: who we are, the catalogue, the groups. Raises StorageError."""
        self.cluster_id = self._read_or_write_meta()
        self._catalogue_log.open()
        self.groups.load()

    def close(self) -> None:
        """Writes what is pending and closes every log cleanly."""
        self.groups.drop()
        self.events.flush()
        self.partitions.close()
        self._catalogue_log.close()

    def _read_or_write_meta(self) -> str:
        if not self._files.exists(META_PROPERTIES):
            cluster_id = _kafka_uuid()
            text = f"version=1\ncluster.id={cluster_id}\nnode.id={self.config.node_id}\ndirectory.id={_kafka_uuid()}\n"
            self._files.replace(META_PROPERTIES, text.encode())
            return cluster_id
        lines = self._files.read_all(META_PROPERTIES).decode(errors="replace").splitlines()
        values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        if "cluster.id" not in values:
            raise StorageError(f"{META_PROPERTIES} names no cluster.id: this is not a Kafka data directory, or the file is damaged")
        if values.get("node.id", str(self.config.node_id)) != str(self.config.node_id):
            raise StorageError(
                f"the data directory belongs to node {values['node.id']}, but this broker is node {self.config.node_id}: set node.id"
            )
        return values["cluster.id"]

    def delete_topic(self, name: str) -> Refused | None:
        """Deletes a topic with its files and its committed offsets. Raises StorageError."""
        records = self.catalogue.delete_topic(name)
        if isinstance(records, Refused):
            return records
        topic = self.catalogue.topics[name]
        self._catalogue_log.append(records)
        if name == CONSUMER_OFFSETS:
            self.groups.drop()
        self.partitions.delete(topic)
        self.groups.forget_topics((name,))
        return None

    def next_producer_id(self) -> int:
        """A producer id that no producer of this cluster ever had. Raises StorageError."""
        if self._producer_id == self._producer_ids_end:
            self._producer_id = self.catalogue.next_producer_id
            self._catalogue_log.append([self.catalogue.next_producer_block(self.config.node_id)])
            self._producer_ids_end = self.catalogue.next_producer_id
        self._producer_id += 1
        return self._producer_id - 1
