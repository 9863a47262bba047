"""Passes alerts on: to a command, or to a URL. Each has a thread of its own, which takes them in order, so that no look waits for it.

A command gets no shell: its words are those of the option, and what a group or a member is called reaches it on standard input and in its
environment alone. Every attempt has a time limit. What cannot be passed on is said in a line, counted, and not tried again later.
What a kill leaves untried is in the archive, and the next run passes it on.
"""

import http.client
import json
import os
import queue
import shlex
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, urlsplit

from ottla.history.alerts import AlertEvent, Alerts, Firing, Name, Rule, decode_firing, encode_firing
from ottla.log.file_system import Files
from ottla.protocol.errors import StorageError

EXEC_SECONDS_MAX: Final = 10.0
WEBHOOK_SECONDS_MAX: Final = 5.0
WEBHOOK_PAUSES_S: Final = (1.0, 2.0)
"""Between the attempts to reach a URL, of which there is one more."""
QUEUED_MAX: Final = 1_000
"""Alerts that wait for one action; of more the newest are dropped, and counted."""
_RESPONSE_BYTES: Final = 64 * 1024

Document = Mapping[str, Any]
Done = Callable[[], None]


class ActionFailed(Exception):
    """An alert was not passed on. `is_final`: another attempt would fail, too."""

    def __init__(self, text: str, *, is_final: bool = True) -> None:
        super().__init__(text)
        self.is_final = is_final


class Action(Protocol):
    """A way to pass alerts on. `name` says which in lines and metrics, without secrets."""

    way: str
    name: str
    pauses_s: Sequence[float]

    def run(self, document: Mapping[str, Any]) -> None:
        """Pass one alert on. Raises ActionFailed."""
        ...


ALERTS_FILE: Final = "alerts.json"


class ClusterAlerts:
    """The alerts of one cluster, and their state in its archive: what fires, and what was not passed on yet."""

    def __init__(
        self, files: Files, rules: Sequence[Rule], cluster: str | None, couriers: Sequence["Courier"], show: Callable[[Document], None]
    ):
        self._files = files
        self._cluster = cluster
        self._couriers = couriers
        self._show = show
        self._lock = threading.Lock()
        self._pending: dict[int, Document] = {}
        self._sent = 0
        firing, pending = self._read()
        self.alerts = Alerts(rules, firing)
        for document in pending:
            self._send(document)

    @property
    def firing(self) -> dict[str, int]:
        """How many alerts of each rule fire."""
        counts = Counter(rule for rule, _ in self.alerts.firing)
        return {rule.text: counts[rule.text] for rule in self.alerts.rules}

    def pass_on(self, events: Sequence[AlertEvent]) -> None:
        """Store what fires now, then show and queue the events. Raises StorageError."""
        if not events:
            return
        documents = [{"cluster": self._cluster, **event.to_dict()} for event in events]
        with self._lock:
            numbers = range(self._sent + 1, self._sent + 1 + len(documents))
            self._sent += len(documents)
            self._pending.update(zip(numbers, documents, strict=True))
            self._write()
        for number, document in zip(numbers, documents, strict=True):
            self._show(document)
            self._queue(number, document)

    def _send(self, document: Document) -> None:
        self._sent += 1
        self._pending[self._sent] = document
        self._queue(self._sent, document)

    def _queue(self, number: int, document: Document) -> None:
        left = [len(self._couriers)]

        def done() -> None:
            with self._lock:
                left[0] -= 1
                if left[0] <= 0:
                    self._pending.pop(number, None)
                    with suppress(StorageError):  # the next look says what is wrong with the disk
                        self._write()

        if not self._couriers:
            done()
        for courier in self._couriers:
            courier.send(document, done)

    def _write(self) -> None:
        state = {"firing": encode_firing(self.alerts.firing), "pending": list(self._pending.values())}
        self._files.replace(ALERTS_FILE, json.dumps(state).encode() + b"\n")

    def _read(self) -> tuple[dict[Name, Firing], list[Document]]:
        if not self._files.exists(ALERTS_FILE):
            return {}, []
        try:
            state = json.loads(self._files.read_all(ALERTS_FILE))
            return decode_firing(state["firing"]), [dict(each) for each in state["pending"]]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StorageError(f"{ALERTS_FILE} is damaged: remove it, and alerts that go on fire once more") from error


class Command:
    """Runs a program for each alert: the event as JSON on standard input, its fields as OTTLA_ALERT_*. Raises ValueError for no words."""

    way = "exec"
    pauses_s: Sequence[float] = ()

    def __init__(self, text: str) -> None:
        self._words = shlex.split(text)
        if not self._words:
            raise ValueError("--exec: a command is missing")
        self.name = f"exec {self._words[0]}"

    def run(self, document: Mapping[str, Any]) -> None:
        """Run the program until it ends or its time is over; then its whole process group is killed."""
        fields = {f"OTTLA_ALERT_{name.upper()}": _plain(value) for name, value in document.items()}
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=os.environ | fields,
                start_new_session=True,
            )
        except OSError as error:
            raise ActionFailed(f"it cannot be started: {error.strerror or error}") from error
        try:
            _, err = process.communicate(json.dumps(document).encode() + b"\n", timeout=EXEC_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise ActionFailed(f"it did not end within {EXEC_SECONDS_MAX:g} s and was killed") from error
        finally:
            for pipe in (process.stdin, process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        if process.returncode:
            last = err.decode(errors="replace").strip().splitlines()[-1:]
            raise ActionFailed(f"its exit status is {process.returncode}" + (f": {last[0][:200]}" if last else ""))


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return text.replace("\0", "\\x00")


class Webhook:
    """Sends each alert to a URL, as JSON with POST. Raises ValueError for what is no URL of http or https."""

    way = "webhook"

    def __init__(self, url: str, *, pauses_s: Sequence[float] = WEBHOOK_PAUSES_S) -> None:
        self._url = _checked(url)
        self.pauses_s = pauses_s
        # The path and the query of a webhook are often its password.
        self.name = f"webhook {self._url.scheme}://{self._url.netloc}"

    def run(self, document: Mapping[str, Any]) -> None:
        """One request. A status of 5xx, 408 or 429, and a server that does not respond, may be tried again."""
        url = self._url
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = kind(url.hostname or "", url.port, timeout=WEBHOOK_SECONDS_MAX)
        # The timeout is of each read: a server that sends a byte now and then would hold it without end.
        limit = threading.Timer(WEBHOOK_SECONDS_MAX, lambda: _shut_down(connection))
        limit.start()
        try:
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            headers = {"Content-Type": "application/json", "User-Agent": "ottla-watch"}
            connection.request("POST", target, json.dumps(document).encode(), headers)
            response = connection.getresponse()
            status = response.status
            response.read(_RESPONSE_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise ActionFailed(f"{error or type(error).__name__}", is_final=False) from error
        finally:
            limit.cancel()
            connection.close()
        if not 200 <= status < 300:
            raise ActionFailed(f"the response is HTTP {status}", is_final=status < 500 and status not in (408, 429))


def _checked(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        is_url = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and text.isascii() and text.isprintable()
    except ValueError:
        is_url = False
    if not is_url or " " in text:
        raise ValueError(f"--webhook: {text!r} is no URL: write http://HOST:PORT/PATH or https://...")
    if url.username is not None:
        raise ValueError("--webhook: a name or password before the host is not sent; put a token into the path or the query")
    return url


def _shut_down(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):
        connection.sock.shutdown(2)


class Courier:
    """Passes alerts on by one action. `say` is called with a line for each that fails. `outcomes` counts: sent, failed, dropped."""

    def __init__(self, action: Action, *, say: Callable[[str], None]) -> None:
        self.outcomes: Counter[str] = Counter()
        self.action = action
        self._say = say
        self._queue: queue.Queue[tuple[Document, Done] | None] = queue.Queue()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ottla-{action.way}", daemon=True)
        self._thread.start()

    def send(self, document: Document, done: Done) -> None:
        """Queue an alert; `done` is called when it was tried."""
        if self._queue.qsize() >= QUEUED_MAX:
            self.outcomes["dropped"] += 1
            self._say(f"{self.action.name}: an alert was dropped, since {QUEUED_MAX:,} wait already")
            done()
            return
        self._queue.put((document, done))

    def stop(self, seconds: float) -> None:
        """Give what is queued some time; what is left is for the next run."""
        self._queue.put(None)
        self._thread.join(seconds)
        self._is_stopping.set()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None and not self._is_stopping.is_set():
            document, done = item
            self._pass_on(document)
            if not self._is_stopping.is_set():
                done()

    def _pass_on(self, document: Document) -> None:
        attempts = len(self.action.pauses_s) + 1
        for attempt in range(1, attempts + 1):
            try:
                self.action.run(document)
            except ActionFailed as error:
                if attempt < attempts and not error.is_final:
                    self._is_stopping.wait(self.action.pauses_s[attempt - 1])
                    continue
                self.outcomes["failed"] += 1
                tried = f" ({attempt} attempts)" if attempt > 1 else ""
                self._say(f"{self.action.name}: an alert was not passed on: {error}{tried}")
                return
            self.outcomes["sent"] += 1
            return
