"""Where incidents are made: brokers of Apache Kafka or Ottla with the same settings, topics, producers, and members of any client."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from ottla.broker import Cluster
from ottla.groups.events import GroupEvent, event_json
from tests.support.processes import JavaProgram, compile_java, free_ports
from tests.support.reference.apache_kafka import ARTIFACTS, QUICK_JVM_OPTIONS, VERSION, ApacheKafka
from tests.support.reference.class_archives import archive_options, kafka_archive
from tests.support.reference.maven import fetch_jars, report_progress
from trials.harness.world import CACHE
from trials.incidents.handles import ProgramMember, java_log_options, start_java_member, start_python_member
from trials.incidents.members.program import MemberSettings

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


JAVA_SOURCE = Path(__file__).parent / "members" / "Members.java"
JAVA_LAYOUTS = ("[%d] %p %m (%c)%n", "%d{ISO8601} %-5p [%t] %c{1} - %m%n")
JVMS_MAX = 3
PRODUCE_EVERY_S = 0.5
ADMIN_SECONDS_MAX = 30
LIBRDKAFKA: dict[str, str | int | float | bool] = {"log_level": 0}


class World:
    """A running broker at `servers` and what is needed beside it; a context manager. Logs of clients are put into `directory`."""

    def __init__(self, servers: str, directory: Path, *, class_path: str, jvm_options: Sequence[str] = ()) -> None:
        self.servers = servers
        self.directory = directory
        self.topics: dict[str, int] = {}
        self._jvm_options = list(jvm_options)
        self._class_path = compile_java(JAVA_SOURCE, class_path, directory)
        self._jvms = threading.Semaphore(JVMS_MAX)
        self._admin = AdminClient(LIBRDKAFKA | {"bootstrap.servers": servers})
        self._has_ended = threading.Event()
        self._producing = threading.Thread(target=self._produce, daemon=True)
        self.shared_java_log = directory / "shared-java.log"
        self._shared_java = self._start_java(self.shared_java_log, JAVA_LAYOUTS[0])

    def __enter__(self) -> Self:
        self._producing.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._has_ended.set()
        self._producing.join()
        self._shared_java.close()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, into which records are produced from now on."""
        self._wait(lambda: self._admin.create_topics([NewTopic(name, partitions, 1)]))
        self.topics[name] = partitions

    def add_partitions(self, name: str, partitions: int) -> None:
        """Increase the number of partitions."""
        self._wait(lambda: self._admin.create_partitions([NewPartitions(name, partitions)]))
        self.topics[name] = partitions

    def delete_topic(self, name: str) -> None:
        """Delete a topic; nothing is produced any more."""
        del self.topics[name]
        self._wait(lambda: self._admin.delete_topics([name]))

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        """Change one setting of a topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._wait(lambda: self._admin.incremental_alter_configs([resource]))

    def stop_producing(self, topics: Sequence[str]) -> None:
        """The topics of an incident that is over."""
        for name in topics:
            self.topics.pop(name, None)

    def start_member(self, settings: MemberSettings, log_path: Path, *, is_alone: bool, rank: int = 0) -> ProgramMember:
        """Start a member; a Java one shares the JVM of all incidents unless it `is_alone`. The rank chooses the layout of its log."""
        if settings.client != "java":
            return start_python_member(settings, log_path)
        if not is_alone:
            return start_java_member(settings, self._shared_java, is_alone=False)
        program = self._start_java(log_path, JAVA_LAYOUTS[rank % len(JAVA_LAYOUTS)])
        return start_java_member(settings, program, is_alone=True)

    def remove_all_members(self, group: str, reason: str | None) -> None:
        """What kafka-consumer-groups and Java's Admin do for an administrator."""
        since = len(self._shared_java.events)
        admin = ProgramMember(f"admin-{group}", self._shared_java, is_alone=False)
        admin.do("remove", servers=self.servers, group=group, reason=reason)
        self._shared_java.wait_for(
            lambda events: any(each.get("member") == admin.name for each in events), "the removal", since=since, seconds=ADMIN_SECONDS_MAX
        )

    def jvm(self) -> threading.Semaphore:
        """A place for one more JVM; an incident with a Java member of its own has it while it runs."""
        return self._jvms

    def _start_java(self, log_path: Path, layout: str) -> JavaProgram:
        options = [*self._jvm_options, *java_log_options(self.directory, log_path, layout)]
        return JavaProgram("Members", self._class_path, error_path=log_path.with_suffix(".stderr"), options=options)

    def _wait(self, request: Callable[[], dict[Any, Any]]) -> None:
        for future in request().values():
            future.result(ADMIN_SECONDS_MAX)

    def _produce(self) -> None:
        """A record into each partition, twice a second; a topic that is just being deleted or a broker that restarts is no error."""
        producer = Producer(LIBRDKAFKA | {"bootstrap.servers": self.servers, "message.timeout.ms": 3_000})
        while not self._has_ended.wait(PRODUCE_EVERY_S):
            for topic, partitions in list(self.topics.items()):
                for number in range(partitions):
                    with suppress(KafkaException, BufferError):
                        producer.produce(topic, b"record", partition=number)
            producer.poll(0)
        producer.purge()


CLUSTERS: Final[Mapping[str, type[IncidentCluster]]] = {kind.kind: kind for kind in (KafkaCluster, OttlaCluster)}


@contextmanager
def open_world(kind: str, directory: Path, *, delay_ms: int = 0) -> Iterator[tuple[IncidentCluster, World]]:
    """A running cluster of this kind, and a world on it, in `directory`; at the end the cluster is stopped in order."""
    cache = CACHE.resolve()
    jars = cache / f"apache-kafka-{VERSION}"
    fetch_jars(ARTIFACTS, jars, what=f"Apache Kafka {VERSION}", report=report_progress)
    options = (*QUICK_JVM_OPTIONS[1:], *archive_options(kafka_archive(cache)))
    cluster = CLUSTERS[kind](directory, cache, delay_ms=delay_ms)
    with cluster, World(cluster.servers, directory, class_path=f"{jars}/*", jvm_options=options) as world:
        yield cluster, world
