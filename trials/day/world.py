"""Where a day happens: one broker, a proxy that can be cut, records, an administrator, and `ottla watch`."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from ottla.cli.processes import RUN_COMMAND, BrokerProcess, OttlaProcess, ServerProcess
from ottla.client.admin.client import AdminClient as GroupAdmin
from ottla.client.settings import ClientSettings
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.reference.apache_kafka import QUICK_JVM_OPTIONS, VERSION, ApacheKafka
from tests.support.reference.class_archives import archive_options, kafka_archive
from trials.harness.world import CACHE
from trials.incidents.world import CONFIG, KIP_848_CONFIG
from trials.lying_broker.proxy import Answer, LyingBroker

VERBOSE_OTTLA: Final = (sys.executable, "-c", "import sys; sys.argv.insert(2, '-v'); from ottla.cli.main import main; main()")
PRODUCE_EVERY_S: Final = 0.5
ADMIN_S_MAX: Final = 20
WATCH_EVERY_S: Final = 1.0
LIBRDKAFKA: Final[dict[str, Any]] = {"log_level": 0}


def make_broker(kind: str, directory: Path) -> BrokerProcess:
    """A broker of this kind, not started; its log has the lines of the group coordinators."""
    if kind == OttlaProcess.kind:
        return OttlaProcess(directory / "data", config=CONFIG, command=VERBOSE_OTTLA)
    cache = CACHE.resolve()
    return ApacheKafka(
        directory / "kafka",
        cache_dir=cache / f"apache-kafka-{VERSION}",
        config=CONFIG | KIP_848_CONFIG | {"broker.session.timeout.ms": "6000"},  # a busy machine is no reason to fence it
        jvm_options=QUICK_JVM_OPTIONS,
        archive_options=archive_options(kafka_archive(cache)),
    )


class Proxy:
    """A way to the broker that can be cut. Its clients see its own port as the broker's."""

    def __init__(self, broker_port: int) -> None:
        self._between = LyingBroker(broker_port)
        self._between.lie = self._pass_on

    @property
    def servers(self) -> str:
        """Where its clients connect."""
        return f"127.0.0.1:{self._between.port}"

    def cut(self) -> None:
        """Nothing comes through from now on."""
        self._between.is_open.clear()

    def mend(self) -> None:
        """What waited comes through, and all that follows."""
        self._between.is_open.set()

    def close(self) -> None:
        """Close all connections."""
        self.mend()
        self._between.close()

    def _pass_on(self, answer: Answer) -> bytes:
        if answer.api is ApiKey.METADATA:
            message = answer.message
            return answer.with_message(replace(message, brokers=tuple(map(self._redirected, message.brokers))))
        if answer.api is ApiKey.FIND_COORDINATOR:
            message = answer.message
            if hasattr(message, "coordinators"):
                return answer.with_message(replace(message, coordinators=tuple(map(self._redirected, message.coordinators))))
            return answer.with_message(self._redirected(message))
        return answer.frame

    def _redirected(self, place: Any) -> Any:
        return replace(place, host="127.0.0.1", port=self._between.port) if place.port > 0 else place


class World:
    """A running broker and what is needed beside it. `sources` is what an operator has of the day."""

    def __init__(self, broker: BrokerProcess, directory: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.sources = directory / "sources"
        self.topics: dict[str, int] = {}
        self.servers = broker.bootstrap_servers
        self.proxy = Proxy(int(self.servers.rpartition(":")[2]))
        self.admin = AdminClient(LIBRDKAFKA | {"bootstrap.servers": self.servers})
        self._has_ended = threading.Event()
        self._producing = threading.Thread(target=self._produce, daemon=True)
        self._producing.start()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, into which records are written from now on."""
        self.ask(lambda: self.admin.create_topics([NewTopic(name, partitions, 1)]))
        self.topics[name] = partitions

    def add_partitions(self, name: str, more: int) -> None:
        """Give a topic more partitions."""
        self.ask(lambda: self.admin.create_partitions([NewPartitions(name, self.topics[name] + more)]))
        self.topics[name] += more

    def ask(self, request: Callable[[], Mapping[Any, Any]]) -> None:
        """Send a request of the administrator's, and wait for it. Raises KafkaException."""
        for future in request().values():
            future.result(ADMIN_S_MAX)

    @contextmanager
    def group_admin(self) -> Iterator[GroupAdmin]:
        """An administrator of groups."""
        with GroupAdmin(ClientSettings(bootstrap_servers=self.servers)) as admin:
            yield admin

    def stall(self, seconds: float) -> None:
        """The broker's process stops, and goes on."""
        os.kill(self.broker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.broker.pid, signal.SIGCONT)

    def close(self) -> None:
        """End what this object has started; the broker goes on."""
        self._has_ended.set()
        self._producing.join()
        self.proxy.close()

    def _produce(self) -> None:
        producer = Producer(LIBRDKAFKA | {"bootstrap.servers": self.servers, "message.timeout.ms": 3_000})
        while not self._has_ended.wait(PRODUCE_EVERY_S):
            for topic, partitions in list(self.topics.items()):
                for number in range(partitions):
                    with suppress(KafkaException, BufferError):
                        producer.produce(topic, b"record", partition=number)
            producer.poll(0)
        producer.purge()


def start_watch(world: World) -> ServerProcess:
    """`ottla watch` on the broker, into the sources."""
    command = [*RUN_COMMAND, "watch", "--bootstrap-server", world.servers, "--output", str(world.sources / "archive")]
    return ServerProcess([*command, "--interval", str(WATCH_EVERY_S)], log_path=world.directory / "watch.log")


class Disturbances(threading.Thread):
    """Notes when this process did not run for a while, since the machine had other things to do; `times` are milliseconds since 1970."""

    LATE_S: Final = 1.0

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.times: list[tuple[int, int]] = []
        self._has_ended = threading.Event()

    def run(self) -> None:
        before_s = time.time()
        while not self._has_ended.wait(0.1):
            now_s = time.time()
            if now_s - before_s > self.LATE_S:
                self.times.append((int(before_s * 1000), int(now_s * 1000)))
            before_s = now_s

    def close(self) -> None:
        """Stop noting."""
        self._has_ended.set()
        self.join()
