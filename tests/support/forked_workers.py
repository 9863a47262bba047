"""Runs the collected tests in processes that are forked when all tests are collected: `-p tests.support.forked_workers --workers 4`.

Each worker of pytest-xdist imports and collects all tests by itself, 14 s of CPU for 14,000 of them. Here that happens once.

The main process hands out units, tests that share something expensive, and passes on to pytest what the workers report. A worker always has
the beginning of its next unit, since pytest needs to know the next test to decide which fixtures end with the current one.

An Apache Kafka or a session of Spark that a worker has once started stays until it ends, and takes the CPU of a hundred tests to start: few
workers have one (`HOLDERS_MAX`), and these run the tests that need it. The others run what mostly waits.
"""

import gc
import itertools
import multiprocessing
import os
import re
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

OWN_KAFKA = (
    "tests/kafka/test_(cleaner|data_directory|dump_log|group_scripts|groups_command|security)",
    r"tests/clients/test_(retention|cleaner|offset_expiry|offsets_topic|kill|durability)\.py.*\[apache-kafka",
)
"""Tests that start an Apache Kafka of their own: they use that of the worker where they ask for `kafka_broker` alone."""
SHARING = (
    r"(?P<file>tests/spark/(contract/)?(?!test_(demo|kill|cluster))\w+)",
    "tests/clients/test_java_client",
    "tests/console/",
    # Those that read the recorded incidents, once for all of them.
    "tests/(trials/test_accuracy|properties/test_(whatif_of_incidents|one_history|more_evidence))",
    # Those that follow the syntax trees of the whole source.
    "tests/test_what_ships",
    "tests/kafka/test_(admin_tools|log_tools|tools)",
    "tests/kafka/test_assignors",
    "tests/kafka/test_offsets_topic_source",
    # One of these at a time.
    *OWN_KAFKA,
)
QUICK_FILES = re.compile(r"(tests/(?:unit|log|scenarios|conformance)/[^:]*)::")
"""Files of tests that take milliseconds: a unit each, handed out last, so that all workers end at about the same time."""
HOLDERS_MAX = {"kafka": 3, "spark": 2}
"""How many workers have an Apache Kafka that tests share, and how many a session of Spark."""
OPEN_FILES = Path("/proc/self/fd")
OPEN_FILES_MAX = 200
"""Of these, a worker looks for garbage: PySpark's py4j waits with `select`, which ends for ever at the file of number 1,024."""
Message = tuple[str, Any]


def needs_of(item: pytest.Item) -> set[str]:
    """What a test needs of `HOLDERS_MAX`."""
    names = set(getattr(item, "fixturenames", ()))
    needs = {"spark"} & names
    if item.get_closest_marker("kafka") is not None:
        has_own = any(re.match(group, item.nodeid) for group in OWN_KAFKA)
        if names & ({"kafka_broker", "place"} if has_own else {"kafka_broker", "place", "reference"}):
            needs.add("kafka")
    return needs


def pytest_addoption(parser: pytest.Parser) -> None:
    """The number of workers."""
    parser.addoption("--workers", type=int, default=1, metavar="N", help="run the tests in N processes, forked after the collection")


def units(items: Sequence[pytest.Item]) -> dict[frozenset[str], deque[list[int]]]:
    """The tests as numbers, in units, by what they need, in the order in which these are handed out: what takes longest first."""
    sharing: dict[str, list[int]] = {}
    single: list[list[int]] = []
    quick: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        if shared := next(filter(None, (re.match(group, item.nodeid) for group in SHARING)), None):
            sharing.setdefault(shared.groupdict().get("file", shared.re.pattern), []).append(number)
        elif file := QUICK_FILES.match(item.nodeid):
            quick.setdefault(file[1], []).append(number)
        else:
            single.append([number])
    ordered = [*sorted(sharing.values(), key=len, reverse=True), *single, *sorted(quick.values(), key=len, reverse=True)]
    by_needs: dict[frozenset[str], deque[list[int]]] = {}
    for tests in ordered:
        by_needs.setdefault(frozenset().union(*(needs_of(items[test]) for test in tests)), deque()).append(tests)
    return by_needs


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in workers, unless there is one process for them."""
    option = session.config.option
    if option.workers < 2 or option.collectonly or session.testsfailed:
        return None
    MainProcess(session).run(option.workers)
    return True


class Worker:
    """One forked process as the main process sees it: the tests that it has, the current one first, and what of `HOLDERS_MAX` they need."""

    def __init__(self, pid: int, connection: Connection, holds: set[str]) -> None:
        self.pid = pid
        self.connection = connection
        self.tests: deque[int] = deque()
        self.holds = holds
        self.has_all = False

    def give(self, tests: Sequence[int]) -> None:
        """Hand out more tests; none means that these were all."""
        self.tests.extend(tests)
        self.has_all = not tests
        self.connection.send(tests)


class MainProcess:
    """Forks workers, hands out tests, and reports what they report."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._config = session.config
        self._hook = session.config.hook
        self._units = units(session.items)
        self._workers: list[Worker] = []
        self._numbers = itertools.count()
        factory: Any = session.config._tmp_path_factory  # type: ignore[attr-defined]
        self._directory: Path = factory.getbasetemp()

    def run(self, count: int) -> None:
        """Run all tests in `count` workers. Raises pytest's own exceptions where it wants the run to end."""
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        capture.read_global_capture()  # what collection printed: each worker would inherit it
        try:
            for _ in range(count):
                self._start_worker((), set())
            while self._workers:
                ready = wait([worker.connection for worker in self._workers])
                for worker in [worker for worker in self._workers if worker.connection in ready]:
                    self._receive(worker)
        finally:
            for worker in self._workers:
                worker.connection.close()  # ends a worker when its current test has ended
            for worker in self._workers:
                os.waitpid(worker.pid, 0)

    def _start_worker(self, tests: Sequence[int], holds: set[str]) -> None:
        ours, theirs = multiprocessing.Pipe()
        number = next(self._numbers)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            for worker in self._workers:
                worker.connection.close()
            ours.close()
            run_worker(self._session, theirs, self._directory / f"worker-{number}")
        theirs.close()
        worker = Worker(pid, ours, holds)
        self._workers.append(worker)
        if tests:
            worker.give(tests)
        self._give_next(worker)

    def _give_next(self, worker: Worker) -> None:
        while len(worker.tests) < 2 and not worker.has_all:
            worker.give(self._next_unit(worker))

    def _next_unit(self, worker: Worker) -> list[int]:
        """What needs most of what the worker has, then what needs nothing, then what the worker may start something for; [] at the end.

        A worker that has nothing begins with what needs most of what it may start: these tests wait for each other, so they begin at once.
        """
        free = {what for what, most in HOLDERS_MAX.items() if sum(what in each.holds for each in self._workers) < most}

        def rank(needs: frozenset[str]) -> tuple[bool, int]:
            return bool(worker.holds and needs - worker.holds), -len(needs)

        needs = min((needs for needs, units in self._units.items() if units and needs <= worker.holds | free), key=rank, default=None)
        if needs is None:
            return []
        worker.holds |= needs
        return self._units[needs].popleft()

    def _receive(self, worker: Worker) -> None:
        try:
            messages: list[Message] = worker.connection.recv()
        except (EOFError, ConnectionError):
            self._worker_ended(worker)
            return
        worker.tests.popleft()
        for kind, content in messages:
            self._pass_on(kind, content)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)
        self._give_next(worker)

    def _pass_on(self, kind: str, content: Any) -> None:
        if kind == "report":
            report = self._hook.pytest_report_from_serializable(config=self._config, data=content)
            self._hook.pytest_runtest_logreport(report=report)
        elif kind == "warning":
            self._hook.pytest_warning_recorded.call_historic(kwargs=content)
        else:
            getattr(self._hook, kind)(**content)

    def _worker_ended(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        _, status = os.waitpid(worker.pid, 0)
        if not worker.tests:
            return
        item = self._session.items[worker.tests.popleft()]
        text = f"The process of this test ended with status {os.waitstatus_to_exitcode(status)}."
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self._hook.pytest_runtest_logreport(report=report)
        self._start_worker(worker.tests, worker.holds)


def run_worker(session: pytest.Session, connection: Connection, directory: Path) -> None:
    """Run tests in this forked process until there are no more; does not return."""
    status = 1
    try:
        _prepare_worker(session.config, directory)
        recorder = Recorder(session.config)
        session.config.pluginmanager.register(recorder)
        tests = _received(connection)
        open_max = OPEN_FILES_MAX
        current = next(tests, None)
        while current is not None:
            following = next(tests, None)
            item, next_item = session.items[current], None if following is None else session.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
            connection.send(recorder.take())
            open_max = _close_garbage(open_max)
            current = following
        status = 0
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # the main process has ended, or ends the run
    except BaseException:  # noqa: BLE001  # the main process reports that this one ended; why, only this one knows
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _close_garbage(open_max: int) -> int:
    """Close files that belong to garbage once more than `open_max` are open; how many may be open then."""
    if not OPEN_FILES.exists() or len(os.listdir(OPEN_FILES)) <= open_max:
        return open_max
    gc.collect()
    return max(OPEN_FILES_MAX, 2 * len(os.listdir(OPEN_FILES)))


def _received(connection: Connection) -> Iterator[int]:
    while tests := connection.recv():
        yield from tests


def _prepare_worker(config: pytest.Config, directory: Path) -> None:
    """Take away what belongs to the main process: its terminal, and the files that it captures output in."""
    config.pluginmanager.unregister(name="terminalreporter")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    directory.mkdir(mode=0o700)
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = directory


class Recorder:
    """What pytest says in a worker, as messages for the main process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._messages: list[Message] = []

    def take(self) -> list[Message]:
        """The messages since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """A test begins."""
        self._messages.append(("pytest_runtest_logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of it has ended."""
        self._messages.append(("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report)))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """It has ended."""
        self._messages.append(("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location}))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: Any, nodeid: str, location: Any) -> None:
        """A warning, as text: its object may refer to anything."""
        text = warnings.WarningMessage(
            str(warning_message.message), warning_message.category, warning_message.filename, warning_message.lineno
        )
        self._messages.append(("warning", {"warning_message": text, "when": when, "nodeid": nodeid, "location": location}))
