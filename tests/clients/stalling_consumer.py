"""An `ottla.Consumer` in a process of its own, which stalls as the lines on its input say: test_lost_members.py runs it.

Arguments: bootstrap servers, topic, group, and the port of a relay, through which all its connections go. It reports JSON objects, one a
line: its assignments, its log lines, its metrics.
"""

import contextlib
import ctypes
import gc
import json
import logging
import queue
import socket
import sys
import threading
import time
from typing import Any

import ottla

STALL_SECONDS = 1.6
"""Longer than the session and the poll interval."""
SETTINGS = {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 200, "max.poll.interval.ms": 1_000, "auto.offset.reset": "earliest"}


def report(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


class Reporter(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        report("logged", text=record.getMessage())


def hold_the_gil() -> None:
    """A native call that does not release the GIL."""
    ctypes.PyDLL(None).usleep(int(STALL_SECONDS * 1_000_000))


class SlowToCollect:
    """Garbage in a cycle, whose collection takes long."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        hold_the_gil()


def connect_through(port: int) -> None:
    connect = socket.create_connection
    socket.create_connection = lambda address, *args, **kwargs: connect(("127.0.0.1", port), *args, **kwargs)  # type: ignore[assignment]


def take_and_work(consumer: ottla.Consumer) -> None:
    """A batch of records, each of which takes its time."""
    consumer.resume(consumer.assignment())
    records = consumer.consume(8, 10)
    consumer.pause(consumer.assignment())
    for _ in records:
        time.sleep(STALL_SECONDS / len(records))


def collect_garbage() -> None:
    SlowToCollect()
    gc.collect()


def read_lines(commands: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        commands.put(line.strip())
    commands.put("end")


def main(servers: str, topic: str, group: str, relay: str) -> None:
    logging.getLogger("ottla.consumer").addHandler(Reporter())
    logging.getLogger("ottla.consumer").propagate = False
    connect_through(int(relay))
    commands: queue.Queue[str] = queue.Queue()
    threading.Thread(target=read_lines, args=(commands,), daemon=True).start()

    def assigned(consumer: ottla.Consumer, partitions: list[ottla.TopicPartition]) -> None:
        consumer.pause(partitions)
        report("assigned", count=len(partitions))

    with ottla.Consumer({"bootstrap.servers": servers, "group.id": group, **SETTINGS}) as consumer:
        consumer.subscribe([topic], on_assign=assigned)
        actions = {
            "slow": lambda: take_and_work(consumer),
            "block": lambda: time.sleep(STALL_SECONDS),
            "collect": collect_garbage,
            "hold": hold_the_gil,
            "metrics": lambda: report("metrics", values=consumer.metrics()),
        }
        while True:
            consumer.poll(0.02)
            with contextlib.suppress(queue.Empty):
                command = commands.get_nowait()
                if command == "end":
                    return
                actions[command]()


if __name__ == "__main__":
    main(*sys.argv[1:])
