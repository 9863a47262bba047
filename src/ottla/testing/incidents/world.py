"""What the incidents of one run share: a broker, its topics with a steady stream of records, and the JVMs of Java members."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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

from ottla.testing.incidents.handles import ProgramMember, java_log_options, start_java_member, start_python_member
from ottla.testing.incidents.members.settings import MemberSettings
from ottla.testing.processes.java_program import JavaProgram, compile_java

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
