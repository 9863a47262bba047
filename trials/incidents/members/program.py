"""One member of a group as a process: `python -m ottla.testing.incidents.members.program SETTINGS`, a Python client's.

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
from importlib import import_module
from typing import Any, Protocol

from ottla.testing.incidents.members.settings import LOG_FORMATS, MemberSettings

MODULES = {
    "confluent": "confluent_member",
    "kafka-python": "kafka_python_member",
    "aiokafka": "aiokafka_member",
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


async def run(settings: MemberSettings, client: Client, commands: "queue.SimpleQueue[dict[str, Any]]", slowness: Slowness) -> None:
    """Poll and do what is commanded until `close`, or until the client has failed for good."""
    await client.start()
    report(settings.name, "started")
    known: set[str] = set()
    errors = 0
    while errors < ERRORS_MAX:
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


def main(arguments: list[str]) -> None:
    """Run the member that the first argument describes."""
    settings = MemberSettings.from_json(arguments[0])
    logging.basicConfig(level=logging.INFO, format=LOG_FORMATS[settings.log_format])
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=read_commands, args=(commands,), daemon=True).start()
    slowness = Slowness()
    make = import_module(f"ottla.testing.incidents.members.{MODULES[settings.client]}").make_client

    async def start_and_run() -> None:
        await run(settings, make(settings, slowness), commands, slowness)

    asyncio.run(start_and_run())
    os._exit(0)  # threads of a library may still wait


if __name__ == "__main__":
    main(sys.argv[1:])
