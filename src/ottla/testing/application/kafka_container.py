"""`KafkaContainer` with the methods of testcontainers' class of that name, without Docker: a broker in this process.

For suites that leave Docker: change the import, keep the rest. Source: testcontainers.kafka.KafkaContainer 4.15.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from ottla.config import BROKER_SETTINGS
from ottla.testing.application.brokers import Broker

_PREFIX: Final = "KAFKA_"


class ExecResult(NamedTuple):
    """What a command in a container gives: its exit code and its output."""

    exit_code: int
    output: bytes


class WrappedContainer:
    """What tests do with Docker's own object: stop the broker, start it again on the same port with its data, and look at its status."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.id = self.short_id = self.name = "ottla"
        self.status = "running"

    def stop(self, timeout: float = 10) -> None:
        """Stop the broker; its data stays."""
        if self.status == "running":
            self._broker.stop()
            self.status = "exited"

    def kill(self, signal: str | None = None) -> None:
        """As `stop`: the broker is in this process, which no signal reaches."""
        self.stop()

    def start(self) -> None:
        """Start the broker again."""
        if self.status == "exited":
            self._broker.start()
            self.status = "running"

    def restart(self, timeout: float = 10) -> None:
        """Stop the broker and start it again."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """No meaning: the status is always that of now."""


class KafkaContainer:
    """`with KafkaContainer() as kafka: kafka.get_bootstrap_server()`.

    `image` and `port` are accepted and have no meaning: nothing is fetched, and the broker takes a free port. While it runs, `broker`
    has the verbs of tests.
    """

    def __init__(self, image: str = "", port: int = 9093) -> None:
        self.image = image
        self.port = port
        self.env: dict[str, str] = {}
        self.broker: Broker | None = None
        self._host_port = 0
        self._wrapped: WrappedContainer | None = None

    def with_bind_ports(self, container: int | str, host: int | None = None) -> Self:
        """Listen on the port `host` of this machine, whichever port of a container it is bound to; None: any free one."""
        self._host_port = host or 0
        return self

    def with_env(self, key: str, value: str | int) -> Self:
        """A broker's setting, as the images take it: KAFKA_NUM_PARTITIONS is num.partitions. Others have no meaning here, and are kept."""
        self.env[key] = str(value)
        return self

    def with_kraft(self) -> Self:
        """No meaning: there is no ZooKeeper."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """No meaning: the broker draws an id."""
        return self.with_env("CLUSTER_ID", cluster_id)

    def start(self, timeout: float = 30) -> Self:
        """Start the broker; it is ready when this returns, in milliseconds. Raises ConfigError for invalid settings."""
        names = {_PREFIX + name.replace(".", "_").upper(): name for name in BROKER_SETTINGS}
        settings = {names[key]: value for key, value in self.env.items() if key in names}
        self.broker = Broker(config=settings, listen=f"127.0.0.1:{self._host_port}").start()
        self._wrapped = WrappedContainer(self.broker)
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop the broker; its data is gone."""
        if self.broker is not None:
            self.broker.stop()
            self.broker = self._wrapped = None

    def get_bootstrap_server(self) -> str:
        """`HOST:PORT`. Raises RuntimeError before the start."""
        return self._running().bootstrap_servers

    def get_container_host_ip(self) -> str:
        """The host of the address."""
        return self.get_bootstrap_server().rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """The broker's port, whichever is asked for: it has one listener."""
        return int(self.get_bootstrap_server().rpartition(":")[2])

    def exec(self, command: str | Sequence[str]) -> ExecResult:
        """No command is run, as there is no container: exit code 127, as of a shell without such a program."""
        program = command.split(maxsplit=1)[0] if isinstance(command, str) else command[0]
        return ExecResult(127, f"{program}: not found: there is no container; use the verbs of KafkaContainer.broker\n".encode())

    def get_wrapped_container(self) -> WrappedContainer:
        """What stands for Docker's container. Raises RuntimeError before the start."""
        self._running()
        assert self._wrapped is not None
        return self._wrapped

    def _running(self) -> Broker:
        if self.broker is None:
            raise RuntimeError("the broker is not running: use `with KafkaContainer() as kafka:` or call start()")
        return self.broker

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
