"""The terminal of `ottla broker`: its log lines on stderr, and commands for several brokers from stdin.

Log lines never stop the broker: a thread writes them, and lines that it cannot write in time are dropped and counted. A program that starts
a broker with `subprocess.PIPE` and does not read the pipe fills it after some 64 kB; the next write never returns.
"""

import asyncio
import json
import logging
import os
import select
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from ottla.config import ConfigError
from ottla.protocol.errors import StorageError

if TYPE_CHECKING:
    from ottla.broker.running_brokers import BrokerTask


QUEUE_CHARACTERS_MAX: Final = 1_000_000
CLOSE_SECONDS_MAX: Final = 2.0
"""What is left at the end may take so long."""
STDERR: Final = 2


class QueuedHandler(logging.Handler):
    """Writes to a descriptor from a thread of its own. `close` returns when all is written, or after `CLOSE_SECONDS_MAX`."""

    def __init__(self, descriptor: int = STDERR) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._queued = 0
        self._dropped = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ottla-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the line, or counts it when too much waits already."""
        try:
            line = self.format(record) + "\n"
        except Exception:  # noqa: BLE001 - as logging's own handlers do with a line that cannot be formatted
            self.handleError(record)
            return
        with self._changed:
            if self._queued + len(line) > QUEUE_CHARACTERS_MAX:
                self._dropped += 1
                return
            self._lines.append(line)
            self._queued += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, as far as it is taken in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS_MAX)
        super().close()

    def _run(self) -> None:
        while text := self._next():
            try:
                self._write(text.encode(errors="backslashreplace"))
            except OSError:  # the pipe is closed, the disk is full: there is no other place to report it
                with self._changed:
                    self._dropped += text.count("\n")

    def _next(self) -> str:
        """All lines that wait, when there are some; nothing at the end."""
        with self._changed:
            while not (self._lines or self._is_closing):
                self._changed.wait()
            lines = [*self._lines]
            if self._dropped and lines:
                lines.append(f"{self._dropped} log lines were dropped here: stderr was not read\n")
                self._dropped = 0
            self._lines.clear()
            self._queued = 0
        return "".join(lines)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                writable = select.poll()  # `select` takes no descriptor above 1,023
                writable.register(self._descriptor, select.POLLOUT)
                writable.poll()


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
