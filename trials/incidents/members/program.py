"""One member of a group as a process: `python -m trials.incidents.members.program SETTINGS`, a Python client's.

Each line of its input is a JSON object whose `do` names what to do: `subscribe` (topics), `unsubscribe`, `sleep` (seconds, without
polling; aiokafka's event loop goes on), `block` (seconds; it does not), `slow` (seconds: the next revocation takes so long), `close`.
It reports its assignment whenever that has changed, and ends with its input. What the library logs goes to stderr.
"""

import asyncio
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any, NoReturn, Protocol, Self

LOG_FORMATS = (
    "%(asctime)s %(levelname)s %(name)s %(message)s",
    "%(asctime)s - %(name)s - %(levelname)s - %(message)s",
    "[%(asctime)s] %(levelname)s:%(name)s:%(message)s",
)
"""How people have the lines of Python's logging; all with a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Settings of one member.

    client_id: None for the library's own. pattern: a regular expression of topics, instead of `topics`. protocol: "classic" or "consumer"
    (KIP-848). rebalance_ms: only aiokafka can have another rebalance timeout than max.poll.interval.ms. debug: librdkafka's
    `debug` contexts. log_format: an index of LOG_FORMATS.
    """

    name: str
    client: str
    servers: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignors: tuple[str, ...] = ("range",)
    protocol: str = "classic"
    session_ms: int = 6_000
    heartbeat_ms: int = 1_000
    max_poll_ms: int = 60_000
    rebalance_ms: int | None = None
    metadata_ms: int = 1_500
    client_id: str | None = None
    instance_id: str | None = None
    debug: str | None = None
    log_format: int = 0
    commits: bool = True

    def to_json(self) -> str:
        """The settings as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The settings that `to_json` wrote."""
        fields: Mapping[str, Any] = json.loads(text)
        named: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        return cls(**named)


def java_settings(member: MemberSettings) -> dict[str, str]:
    """The properties of the Java client; librdkafka's have the same names."""
    settings = {
        "bootstrap.servers": member.servers,
        "group.id": member.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": str(member.commits).lower(),
        "auto.commit.interval.ms": "1000",
        "max.poll.interval.ms": str(member.max_poll_ms),
        "metadata.max.age.ms": str(member.metadata_ms),
    }
    if member.client_id is not None:
        settings["client.id"] = member.client_id
    if member.instance_id is not None:
        settings["group.instance.id"] = member.instance_id
    if member.protocol == "consumer":
        return settings | {"group.protocol": "consumer"}
    return settings | {"session.timeout.ms": str(member.session_ms), "heartbeat.interval.ms": str(member.heartbeat_ms)}


MODULES = {
    "confluent": "confluent_member",
    "kafka-python": "kafka_python_member",
    "aiokafka": "aiokafka_member",
    "ottla": "ottla_member",
}
ERRORS_MAX = 5

log = logging.getLogger("app")


class Slowness:
    """How long the next revocation of partitions takes, in seconds."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def set(self, seconds: float) -> None:
        """From the next revocation on, once."""
        self._seconds = seconds

    def take(self) -> float:
        """The seconds to spend now."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class Client(Protocol):
    """One consumer of a library; everything is called from one task."""

    async def start(self) -> None:
        """Connect and subscribe as the settings say."""

    async def subscribe(self, topics: list[str]) -> None:
        """Subscribe to these topics instead."""

    async def unsubscribe(self) -> None:
        """Subscribe to nothing."""

    async def poll(self) -> None:
        """Read what there is, for a moment; without a subscription, do what the library has left to do."""

    def assignment(self) -> set[str]:
        """The partitions owned now, as TOPIC-NUMBER."""

    async def close(self) -> None:
        """Leave the group (a dynamic member) and end."""


def report(member: str, event: str, **more: Any) -> None:
    """One line about what happened."""
    sys.stdout.write(json.dumps({"member": member, "event": event, **more}) + "\n")
    sys.stdout.flush()


async def run(
    settings: MemberSettings, client: Client, commands: "queue.SimpleQueue[dict[str, Any]]", slowness: Slowness, errors_max: int
) -> None:
    """Poll and do what is commanded until `close`, or until the client has failed so many times in a row."""
    await client.start()
    report(settings.name, "started")
    known: set[str] = set()
    errors = 0
    while errors < errors_max:
        try:
            while not commands.empty():
                command = commands.get()
                await obey(client, command, slowness)
                report(settings.name, "done", do=command["do"])
                if command["do"] == "close":
                    return
            await client.poll()
            errors = 0
        except Exception as error:  # noqa: BLE001 - whatever a library raises: an application logs it and polls again
            errors += 1
            log.error("consumer failed: %r", error)
            await asyncio.sleep(0.3)
        owned = client.assignment()
        if owned != known:
            known = owned
            report(settings.name, "assignment", partitions=sorted(owned))
    report(settings.name, "failed")


async def obey(client: Client, command: dict[str, Any], slowness: Slowness) -> None:
    """Carry out one command."""
    match command["do"]:
        case "subscribe":
            await client.subscribe(command["topics"])
        case "unsubscribe":
            await client.unsubscribe()
        case "sleep":
            await asyncio.sleep(command["seconds"])
        case "block":
            time.sleep(command["seconds"])
        case "slow":
            slowness.set(command["seconds"])
        case "close":
            await client.close()
        case unknown:
            raise ValueError(f"no command {unknown!r}")


def read_commands(commands: "queue.SimpleQueue[dict[str, Any]]") -> None:
    """Queue the lines of the input; end this process with it."""
    for line in sys.stdin:
        commands.put(json.loads(line))
    os._exit(0)


def serve(settings: MemberSettings, commands: "queue.SimpleQueue[dict[str, Any]]", *, errors_max: int = ERRORS_MAX) -> NoReturn:
    """Run the member until it is closed or has failed; this process ends with it."""
    slowness = Slowness()
    make = import_module(f"trials.incidents.members.{MODULES[settings.client]}").make_client

    async def start_and_run() -> None:
        await run(settings, make(settings, slowness), commands, slowness, errors_max)

    asyncio.run(start_and_run())
    os._exit(0)  # threads of a library may still wait


def main(arguments: list[str]) -> None:
    """Run the member that the first argument describes."""
    settings = MemberSettings.from_json(arguments[0])
    logging.basicConfig(level=logging.INFO, format=LOG_FORMATS[settings.log_format])
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=read_commands, args=(commands,), daemon=True).start()
    serve(settings, commands)


if __name__ == "__main__":
    main(sys.argv[1:])
