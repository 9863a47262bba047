"""A broker, a ledger, the members of a group as programs, and an observer of the group; processes are killed as a seed decides.

`kill_one` kills one of them at a random moment, starts it again, waits until the group has processed what was written by then, and returns
what is wrong. The seed decides moments and victims; what happens at such a moment still differs from run to run.
"""

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from ottla.cli.processes import BrokerProcess
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until
from tests.support.processes import command_line
from trials.harness.ledger import RECORDS_PER_SECOND, Ledger
from trials.harness.oracle import Offsets, invented, wrong_rows
from trials.harness.world import Program
from trials.kills.group import ALONE, COMMIT, PLAIN, SPARK, LineUp, Watcher
from trials.kills.plain_member import PlainJob
from trials.kills.spark_member import Job
from trials.kills.tables import KeyedResult, Result, SinkResult

TOPIC: Final = "flights"
GROUP: Final = "flights-table"
PARTITIONS: Final = 4
PROGRESS_S_MAX: Final = 300
"""The longest time in which the group continues after a kill, also on a busy machine."""
BEFORE_KILL_S: Final = (0.0, 1.5)
BROKER_GONE_S: Final = (0.0, 1.5)
MEMBER_GONE_S: Final = (0.0, 9.0)
"""Of a group with others: they take over, or the member is back before that."""
VICTIMS: Final = ("worker", "broker", "driver")
PLANNER: Final = "python_streaming_source_runner"
"""How the command line of the process ends that plans the batches of a query."""
WORKERS: Final = {PLANNER: "the one that plans", "pyspark.worker": "one that reads, or their parent"}
"""Spark's Python processes of a running query, by the end of their command lines; the others have done their work."""


class Member(Program):
    """A member of the group: a query of Spark, or a plain consumer."""

    def __init__(self, kind: str, directory: Path, command: Sequence[str]) -> None:
        super().__init__(directory, command)
        self.kind = kind

    def workers(self) -> list[psutil.Process]:
        """The Python processes of its Spark: one that plans, and those that read."""
        return [process for process in self.tree() if command_line(process).endswith(tuple(WORKERS))]

    def failed_queries(self) -> int:
        """How often it had to start its query again."""
        return self.said().count("the query failed: ")


def kind_of(worker: psutil.Process) -> str:
    """What a worker does, in words; "one that has ended" where that cannot be known any more."""
    words = command_line(worker)
    return next((what for end, what in WORKERS.items() if words.endswith(end)), "one that has ended")


class Kill(NamedTuple):
    """One kill: which process and when, in words; how long until the group had caught up; what was wrong.

    `again`: how often records were written to a table that had been written before, which a kill may cause in member mode.
    """

    what: str
    back_after_s: float
    records: int
    checks: int
    wrong: list[str]
    again: int = 0


class World:
    """Run the members and write records, as a context manager. The broker runs already; `directory` is new.

    `source`: that of the queries, a key of driver.SOURCES.
    """

    def __init__(
        self, broker: BrokerProcess, seed: int, directory: Path, *, source: str = "ottla", who: LineUp = ALONE, partitions: int = PARTITIONS
    ) -> None:
        self._broker = broker
        self._random = random.Random(seed)
        self._who = who
        self._partitions = partitions
        self.members: list[Member] = []
        self._directories = [directory / f"{number}-{kind}" for number, kind in enumerate(who.members)]
        self._source = source
        self._result: Result = (
            SinkResult(self._directories[0]) if who.mode == COMMIT else KeyedResult(self._directories, TOPIC, self._partitions)
        )

    def __enter__(self) -> "World":
        servers = self._broker.bootstrap_servers
        create_topic(servers, TOPIC, self._partitions)
        self.members = [
            Member(kind, directory, self._command(kind, directory)) for kind, directory in zip(self._who.members, self._directories)
        ]
        for member in self.members:
            member.start()
        self.ledger = Ledger(servers, TOPIC, self._partitions)
        self.watcher = Watcher(servers, GROUP, self._result.processed)
        self.ledger.start()
        self.watcher.start()
        self._wait_until(lambda: len(self.ledger.ends()) == self._partitions)
        return self

    def __exit__(self, *error: object) -> None:
        self.ledger.close()
        self.watcher.close()
        for member in self.members:
            member.kill()

    @property
    def victims(self) -> tuple[str, ...]:
        """What `kill_one` chooses from."""
        others = ("freeze",) if len(self._who.members) > 1 else ()
        return (*VICTIMS, *others, *(("consumer", "visit") if PLAIN in self._who.members else ()))

    def kill_one(self, victim: str | None = None) -> Kill:
        """Kill a query's driver, one of its workers, the broker, or the plain member (None: one of them); check once all caught up.

        "visit": the plain member is not killed, but leaves and comes back. "freeze": a driver and its processes stand still until the group
        has gone on without it, in the middle of a batch perhaps, and then continue.
        """
        self.settle()
        checks, failed, again = self.watcher.checks, self._failed_queries(), self._result.written_again()
        victim = victim or self._random.choice(self.victims)
        after_s = self._random.uniform(*BEFORE_KILL_S)
        time.sleep(after_s)
        act = {
            "driver": self._restart_driver,
            "worker": self._kill_worker,
            "broker": self._restart_broker,
            "freeze": self._freeze_driver,
            "consumer": self._restart_consumer,
            "visit": self._let_consumer_return,
        }[victim]
        what = act()
        began = time.monotonic()
        self.wait_for_records()
        self.settle()
        took_s = time.monotonic() - began
        restarts = self._failed_queries() - failed if victim != "driver" else 0
        words = f"{what} after {after_s:.2f} s" + (f", query restarted {restarts}x" if restarts else "")
        again = self._result.written_again() - again
        wrong = self._check()
        if victim == "visit" and again:
            wrong.append(f"records were processed {again} times again, though no process was killed")
        return Kill(words, took_s, len(self.ledger.acknowledged), self.watcher.checks - checks, wrong, again)

    def leave(self) -> list[str]:
        """Kill the query's driver at a random moment and leave it dead; return what is wrong with what it leaves behind."""
        time.sleep(self._random.uniform(*BEFORE_KILL_S))
        self._spark()[0].kill()
        checks = self.watcher.checks
        self._wait_until(lambda: self.watcher.checks > checks + 1)
        return self._check()

    def finish(self) -> list[str]:
        """Let the group process everything that was written; return what is wrong then."""
        self.ledger.close()
        self.wait_until_processed(self.ledger.ends())
        return self._check() + invented(self.ledger.acknowledged, self._result.rows())

    def settle(self) -> None:
        """Wait until the group has committed what is written by now, and the members that run are its members, without a rebalance."""
        self.wait_until_processed(self.ledger.ends())
        if self._who.mode != COMMIT:
            # Only now: before, one of the members may be one that was killed, and whose partitions no other has yet.
            self._wait_until(lambda: self.watcher.has_members(sum(member.is_running for member in self.members)))
            self.wait_until_processed(self.ledger.ends())

    def wait_for_records(self) -> None:
        """Wait until more is written: what is written from now on cannot have been processed before."""
        written = len(self.ledger.acknowledged)
        self._wait_until(lambda: len(self.ledger.acknowledged) >= written + RECORDS_PER_SECOND // 2)

    def wait_until_processed(self, ends: Offsets) -> None:
        """Wait until the group has committed `ends`."""
        self._wait_until(lambda: all(self.watcher.committed.get(partition, 0) >= offset for partition, offset in ends.items()))

    # --- the victims

    def _restart_driver(self) -> str:
        driver = self._random.choice(self._spark())
        driver.kill()
        gone_s = self._random.uniform(*MEMBER_GONE_S) if len(self.members) > 1 else 0.0
        time.sleep(gone_s)
        driver.start()
        return "driver killed" + (f", gone for {gone_s:.2f} s," if gone_s else "")

    def _freeze_driver(self) -> str:
        driver = self._random.choice(self._spark())
        driver.freeze()
        began = time.monotonic()
        self.wait_for_records()
        self.wait_until_processed(self.ledger.ends())  # by the others, once its session has expired
        frozen_s = time.monotonic() - began
        driver.thaw()
        return f"driver frozen for {frozen_s:.2f} s"

    def _restart_consumer(self) -> str:
        consumer = self._plain()
        consumer.kill()
        gone_s = self._random.uniform(*MEMBER_GONE_S)
        time.sleep(gone_s)
        consumer.start()
        return f"consumer killed, gone for {gone_s:.2f} s,"

    def _let_consumer_return(self) -> str:
        consumer = self._plain()
        consumer.stop()
        self.wait_for_records()
        self.settle()
        consumer.start()
        return "consumer left and came back"

    def _kill_worker(self) -> str:
        driver = self._random.choice(self._spark())
        self._wait_until(lambda: bool(driver.workers()))  # a query that has just restarted has none for a moment
        workers = [(kind_of(worker), worker) for worker in driver.workers()]
        # The one that plans is one of many, and the only one that is a member of a group: it is killed as often as the others together.
        kind = self._random.choice(sorted({kind for kind, _ in workers}))
        self._random.choice([worker for each, worker in workers if each == kind]).kill()
        return f"worker killed ({kind})"

    def _restart_broker(self) -> str:
        self._broker.kill()
        gone_s = self._random.uniform(*BROKER_GONE_S)
        time.sleep(gone_s)
        self._broker.start()
        return f"broker killed, gone for {gone_s:.2f} s,"

    def _spark(self) -> list[Member]:
        return [member for member in self.members if member.kind == SPARK]

    def _plain(self) -> Member:
        return next(member for member in self.members if member.kind == PLAIN)

    def _command(self, kind: str, directory: Path) -> list[str]:
        servers, who = self._broker.bootstrap_servers, self._who
        times = (str(who.session_ms), str(who.heartbeat_ms))
        if kind == PLAIN:
            plain = PlainJob(servers, TOPIC, GROUP, str(directory), who.assignor, *times)
            return [sys.executable, "-m", "trials.kills.plain_member", *plain]
        instance = directory.name if who.is_static else ""
        job = Job(servers, TOPIC, GROUP, str(directory), self._source, who.mode, who.assignor, *times, instance)
        return [sys.executable, "-m", "trials.kills.spark_member", *job]

    # --- the checks

    def _check(self) -> list[str]:
        wrong, self.watcher.wrong = self.watcher.wrong, []
        committed = self.watcher.committed
        return wrong + self.ledger.failures + wrong_rows(dict(self.ledger.acknowledged), self._result.rows(), committed)

    def _failed_queries(self) -> int:
        return sum(member.failed_queries() for member in self.members)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Raises AssertionError with the end of each member's log when that takes too long."""
        wait_until(condition, lambda: f"progress:\n{self._logs()}", lambda: time.sleep(0.02), seconds=PROGRESS_S_MAX)

    def _logs(self) -> str:
        return "\n".join(f"{member.directory.name}:\n{member.said()[-4000:]}" for member in self.members)
