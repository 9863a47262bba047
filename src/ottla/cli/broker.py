"""Commands to several running brokers, one on each line of stdin: `ottla broker --brokers 3` with a terminal or a pipe.

Reads lines, calls the brokers and prints the results.
"""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.core.config import ConfigError
from ottla.core.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.running_brokers import BrokerTask

LINE_BYTES_MAX = 65_536
USAGE = "stop BROKER, start BROKER, add, move-leader TOPIC PARTITION BROKER, move-coordinator GROUP BROKER, coordinator GROUP"


def read_verbs(task: "BrokerTask", descriptor: int, *, as_json: bool = False) -> None:
    """Start a thread that executes one line after the other until the input or the process ends. Call it in the loop's thread.

    `as_json`: an answer is printed as {"ok": true or false, "message": ...}, else as it is.
    """
    # A process in the background reads nothing; without this, typing in its terminal would stop it.
    signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_read, args=(task, loop, descriptor, _json_answer if as_json else str), name="ottla-verbs", daemon=True).start()


def _json_answer(answer: str) -> str:
    verdict, _, message = answer.partition(": ")
    return json.dumps({"ok": verdict == "ok", "message": message})


def _read(task: "BrokerTask", loop: asyncio.AbstractEventLoop, descriptor: int, shown: Callable[[str], str]) -> None:
    rest = b""
    # Not through sys.stdin, whose lock a process that ends cannot take from a thread that waits.
    while data := _some(descriptor):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            try:
                answer = asyncio.run_coroutine_threadsafe(carry_out(task, line.decode(errors="replace")), loop).result()
            except (RuntimeError, asyncio.CancelledError):  # the broker stops
                return
            if answer:
                print(shown(answer), flush=True)
        rest = rest[-LINE_BYTES_MAX:]


def _some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, LINE_BYTES_MAX)
    except OSError:  # no terminal any more, or none that is ours
        return b""


async def carry_out(task: "BrokerTask", line: str) -> str:
    """One line; its answer begins with `ok` or `error`, and is empty for an empty line."""
    words = line.split()
    if not words:
        return ""
    verb, arguments = words[0], words[1:]
    known = _VERBS.get(verb)
    if known is None or known[0] != len(arguments):
        return f"error: write one of: {USAGE}"
    try:
        return await known[1](task, *arguments)
    except (ConfigError, StorageError, OSError) as error:
        return f"error: {error}"
    except ValueError:
        return f"error: {line.strip()}: a broker and a partition are numbers"


async def _stop(task: "BrokerTask", broker_id: str) -> str:
    await task.stop_broker(int(broker_id))
    return f"ok: broker {broker_id} is stopped"


async def _start(task: "BrokerTask", broker_id: str) -> str:
    await task.start_broker(int(broker_id))
    return f"ok: broker {broker_id} listens on {task.address(int(broker_id))}"


async def _add(task: "BrokerTask") -> str:
    broker_id = await task.add_broker()
    return f"ok: broker {broker_id} listens on {task.address(broker_id)}"


async def _move_leader(task: "BrokerTask", topic: str, partition: str, to: str) -> str:
    await task.move_leader(topic, int(partition), int(to))
    return f"ok: broker {to} leads {topic}-{partition}"


async def _move_coordinator(task: "BrokerTask", group_id: str, to: str) -> str:
    await task.move_coordinator(group_id, int(to))
    return await _coordinator(task, group_id)


async def _coordinator(task: "BrokerTask", group_id: str) -> str:
    place = await task.coordinator(group_id)
    where = "no broker" if place.broker_id is None else f"broker {place.broker_id} on {place.address}"
    return f"ok: {group_id} has hash {place.hash}, partition {place.partition}, and is coordinated by {where}"


_VERBS: dict[str, tuple[int, Callable[..., Awaitable[str]]]] = {
    "stop": (1, _stop),
    "start": (1, _start),
    "add": (0, _add),
    "move-leader": (3, _move_leader),
    "move-coordinator": (2, _move_coordinator),
    "coordinator": (1, _coordinator),
}
