"""The brokers on which incidents are made, Apache Kafka's and Ottla's, with the same settings, and what they leave behind."""

import logging
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.broker import Cluster
from ottla.broker.coordination.event_json import event_json
from ottla.core.model import GroupEvent
from ottla.testing.processes.ports import free_ports
from ottla.testing.reference.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka
from ottla.testing.reference.class_archives import archive_options, kafka_archive

CONFIG: Final = {
    "offsets.topic.num.partitions": "4",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "1000",
    "log.retention.check.interval.ms": str(24 * 3_600_000),
}
KIP_848_CONFIG: Final = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "1000",
}
BROKERS: Final = 3
LOG_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


class IncidentCluster(ABC):
    """A broker with its data and log below `directory`; a context manager. delay_ms: group.initial.rebalance.delay.ms."""

    kind: str

    def __init__(self, directory: Path, cache: Path, *, delay_ms: int = 0) -> None:
        self.directory = directory
        self.cache = cache
        self.config = CONFIG | {"group.initial.rebalance.delay.ms": str(delay_ms)}
        self.log_path = directory / "broker.log"
        self.events: list[GroupEvent] = []

    @property
    @abstractmethod
    def servers(self) -> str:
        """Where clients connect."""

    @property
    @abstractmethod
    def data_directory(self) -> Path:
        """Where the folders of partitions are."""

    @abstractmethod
    def start(self) -> None:
        """Start it."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it in order: everything is written then."""

    @abstractmethod
    def restart(self, **config: str) -> None:
        """Stop it and start it again on the same data and port, with some settings changed."""

    def event_lines(self) -> list[str]:
        """Ottla's own events as they are published."""
        return [event_json(event).decode() for event in self.events]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()


class KafkaCluster(IncidentCluster):
    """One Apache Kafka."""

    kind = "apache-kafka"

    def __init__(self, directory: Path, cache: Path, *, delay_ms: int = 0) -> None:
        super().__init__(directory, cache, delay_ms=delay_ms)
        self._broker = ApacheKafka(
            directory / "kafka",
            cache_dir=cache / f"apache-kafka-{VERSION}",
            config=self.config | KIP_848_CONFIG,
            jvm_options=QUICK_JVM_OPTIONS,
            archive_options=archive_options(kafka_archive(cache)),
        )
        self.log_path = self._broker.log_path

    @property
    def servers(self) -> str:
        """Where clients connect."""
        return self._broker.bootstrap_servers

    @property
    def data_directory(self) -> Path:
        """Where the folders of partitions are."""
        return self._broker.log_dir

    def start(self) -> None:
        """Start it."""
        self._broker.start()

    def stop(self) -> None:
        """Stop it in order."""
        self._broker.stop()

    def restart(self, **config: str) -> None:
        """Stop it and start it again, with some settings changed (names with "_" for ".")."""
        self._broker.stop()
        with (self._broker.data_dir / "server.properties").open("a") as properties:
            properties.writelines(f"{name.replace('_', '.')}={value}\n" for name, value in config.items())
        self._broker.start()


class OttlaCluster(IncidentCluster):
    """Three Ottla brokers inside this process."""

    kind = "ottla"

    def __init__(self, directory: Path, cache: Path, *, delay_ms: int = 0) -> None:
        super().__init__(directory, cache, delay_ms=delay_ms)
        self._cluster: Cluster | None = None
        self._servers = ""
        handler = logging.FileHandler(self.log_path)
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        logging.getLogger("ottla.broker").addHandler(handler)
        logging.getLogger("ottla.broker").setLevel(logging.INFO)

    @property
    def servers(self) -> str:
        """Where clients connect."""
        return self._servers

    @property
    def data_directory(self) -> Path:
        """Where the folders of partitions are."""
        return self.directory / "data"

    def start(self) -> None:
        """Start it."""
        listen = self._servers.split(",")[0] or f"127.0.0.1:{free_ports(BROKERS)[0]}"
        self._cluster = Cluster(BROKERS, self.data_directory, config=self.config, listen=listen, on_group_event=self.events.append)
        self._cluster.start()
        self._servers = self._cluster.bootstrap_servers

    def stop(self) -> None:
        """Stop it in order."""
        assert self._cluster is not None
        self._cluster.stop()

    def restart(self, **config: str) -> None:
        """Stop it and start it again, with some settings changed (names with "_" for ".")."""
        self.stop()
        self.config |= {name.replace("_", "."): value for name, value in config.items()}
        self.start()

    def move_coordinators(self, groups: list[str]) -> None:
        """Each group gets another coordinator."""
        assert self._cluster is not None
        for group in groups:
            at = self._cluster.coordinator(group).broker_id
            self._cluster.move_coordinator(group, to=next(each for each in self._cluster.live_brokers if each != at))
