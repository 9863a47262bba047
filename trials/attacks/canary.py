"""An honest client in a process of its own that measures how long it waits for small requests while others load the broker.

Every few milliseconds it produces a record, fetches it and asks for metadata, on one connection. It is a process so that
the attacker's own work does not slow the measuring: `python -m trials.attacks.canary SERVERS TOPIC` writes a line of JSON for each
line that it reads.
"""

import json
import subprocess
import sys
import time
from threading import Lock, Thread
from types import TracebackType
from typing import NamedTuple, Self

from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, build_request

PAUSE_SECONDS = 0.005
ANSWER_SECONDS_MAX = 300


class Waits(NamedTuple):
    """The longest wait for one response since the last reading, in milliseconds, its request, and the number of responses."""

    worst_ms: float
    request: str
    answered: int


class Waiting:
    """The waits since the last reading, and of the request that waits now: a missing response counts too."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._worst = Waits(0.0, "", 0)
        self._asked: tuple[str, float] | None = None

    def asked(self, request: str) -> None:
        """A request was sent."""
        with self._lock:
            self._asked = request, time.monotonic()

    def answered(self) -> None:
        """Its response was received."""
        with self._lock:
            worst, self._asked = self._with_open(), None
            self._worst = worst._replace(answered=worst.answered + 1)

    def read(self) -> Waits:
        """The waits until now; counting begins again."""
        with self._lock:
            worst, self._worst = self._with_open(), Waits(0.0, "", 0)
            return worst

    def _with_open(self) -> Waits:
        if self._asked is not None:
            request, since = self._asked
            waited_ms = (time.monotonic() - since) * 1000
            if waited_ms > self._worst.worst_ms:
                return Waits(waited_ms, request, self._worst.answered)
        return self._worst


def send_requests(servers: str, topic: str, waiting: Waiting) -> None:
    """Send small requests until the process ends. `topic` must have a partition 0 that no other client writes to."""
    batch = bytes(encode_batch([Record(0, int(time.time() * 1000), None, b"canary")]))
    produce = {"transactional_id": None, "acks": 1, "timeout": 1000}
    parts = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    offsets = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 4096}]
    fetch = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 4096, "isolation_level": 0, "session_epoch": -1}
    requests = {
        "Produce": build_request(ApiKey.PRODUCE, 8, {**produce, "topic_data": parts}),
        "Fetch": build_request(ApiKey.FETCH, 11, {**fetch, "topics": [{"topic": topic, "partitions": offsets}]}),
        "Metadata": build_request(ApiKey.METADATA, 8, {"topics": [{"name": topic}], "allow_auto_topic_creation": False}),
    }
    with RawClient(servers, client_id="canary", timeout_seconds=ANSWER_SECONDS_MAX) as client:
        frames = {name: client.encode(request) for name, request in requests.items()}
        while True:
            for name, frame in frames.items():
                waiting.asked(name)
                client.send_frame(frame)
                client.receive_frame()
                waiting.answered()
            time.sleep(PAUSE_SECONDS)


class Canary:
    """The canary's process, as a context manager."""

    def __init__(self, servers: str, topic: str) -> None:
        command = [sys.executable, "-m", "trials.attacks.canary", servers, topic]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> Waits:
        """The waits since the last reading."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("read\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the canary's process has ended: the broker closed its connection"
        return Waits(*json.loads(line))

    def __enter__(self) -> Self:
        while not self.read().answered:
            time.sleep(PAUSE_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


def main(servers: str, topic: str) -> None:
    """Send requests in a thread; print a reading for each line of input, until the input or the thread ends."""
    waiting = Waiting()
    asking = Thread(target=send_requests, args=(servers, topic, waiting), daemon=True)
    asking.start()
    for _line in sys.stdin:
        if not asking.is_alive():
            sys.exit("the broker closed the canary's connection")
        print(json.dumps(waiting.read()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
