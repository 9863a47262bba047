"""A topic with records, three groups, a producer and a consumer that go on, and a migration that is killed and started again.

The seed decides records, victims and moments; what happens at such a moment still differs from run to run. At the end the oracle reads
source, target and groups.
"""

import csv
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from ottla.cli.processes import BrokerProcess, ServerProcess
from ottla.testing.raw_client import create_topic
from ottla.testing.waiting import wait_until
from tests.support.processes import command_line, kill_tree, process_tree
from tests.support.reference.apache_kafka import ApacheKafka
from trials.harness.runs import Outcome
from trials.migration.oracle import Carried, Expected, Source, TargetCheck, wrong_group
from trials.migration.records import PARTITIONERS, RECORDS_A_KEY, Ends, RecordMaker, commit, committed, read_topic
from trials.migration.traffic import LiveConsumer, LiveWriter, TransactionalWriter, Writer, fill, group_positions

SOURCE, TARGET = "flights", "flights-moved"
PROGRESS_S_MAX: Final = 600
"""The longest time without progress of the migration, also on a busy machine."""
ENDS_S_MAX: Final = 60
CHECK_EVERY_S: Final = 0.05
LIVE_GROUP: Final = "trial-ahead"
MIGRATE: Final = (sys.executable, "-m", "ottla", "migrate")
PLAIN_COPY: Final = (sys.executable, "-m", "trials.migration.plain_copy")
COMMAND_VICTIMS: Final = ("tree", "command", "java")
BROKER: Final = "broker"
VICTIMS: Final = (*COMMAND_VICTIMS, BROKER)
"""What is killed: all processes of the command, its own alone, its Java process alone; or the broker, which is started again."""
BROKER_GONE_S: Final = (0.0, 4.0)
MOMENTS: Final = {"copying": 3, "following": 1, "cutting over": 1}
"""When a kill happens, with its weight: while records are copied, when all were, when producer and consumer have stopped."""


class Trial(NamedTuple):
    """What is moved and how.

    `command` is `ottla migrate` or stands for it, `more` are further arguments of it; `per_second` is the rate of producer and consumer;
    `victims` are some of VICTIMS.
    """

    seed: int
    records: int
    source_partitions: int
    target_partitions: int
    is_followed: bool
    partitioner: str = "murmur2"
    command: Sequence[str] = MIGRATE
    more: Sequence[str] = ()
    idle_s: float = 5
    per_second: int = 1_000
    victims: Sequence[str] = VICTIMS


class World:
    """Fill the source and let a migration run, as a context manager. The broker runs already; `directory` is new."""

    def __init__(self, broker: BrokerProcess, trial: Trial, directory: Path) -> None:
        self._broker = broker
        self._trial = trial
        self._directory = directory
        self._random = random.Random(trial.seed)
        self._migration: ServerProcess | None = None
        self._left: list[psutil.Process] = []
        self._stated: dict[str, int] = {}
        self._wrong: list[str] = []
        self._failures = 0
        self._is_live = False
        self._may_fail = False
        self._began = 0.0
        self._makers = [
            RecordMaker(trial.seed, partitions=trial.source_partitions, keys=keys, partitioner=trial.partitioner, prefix=prefix)
            for prefix, keys in ((b"k", max(16, trial.records // RECORDS_A_KEY)), (b"t", 16))
        ]

    def __enter__(self) -> "World":
        self._directory.mkdir(parents=True)
        servers, trial = self._broker.bootstrap_servers, self._trial
        # The records are years old: no broker may delete them.
        create_topic(servers, SOURCE, trial.source_partitions, retention_ms="-1")
        self._writer = Writer(servers, SOURCE)
        transactions = None
        if self._broker.kind == ApacheKafka.kind:  # the one that has transactions
            transactions = TransactionalWriter(servers, SOURCE, self._makers[1], partitions=trial.source_partitions)
            for is_committed in (True, False):
                transactions.begin(will_commit=is_committed)
                transactions.end(commits=is_committed)
        fill(self._writer, self._makers[0], trial.records)
        self._ends = Ends(servers)
        for group, offsets in group_positions(self._ends.of(SOURCE)).items():
            commit(servers, group, SOURCE, offsets)
        self._producing = LiveWriter(self._writer, self._makers[0], transactions, per_second=trial.per_second)
        self._consuming = LiveConsumer(servers, LIVE_GROUP, SOURCE, per_second=trial.per_second)
        if trial.is_followed:
            self._producing.start()
            self._consuming.start()
            self._is_live = True
            wait_until(lambda: self._consuming.read, "a member of the group that reads", seconds=PROGRESS_S_MAX)
        return self

    def __exit__(self, *error: object) -> None:
        if self._migration is not None:
            kill_tree(self._migration.pid)
            self._migration.kill()
        for process in self._left:
            if process.is_running():
                kill_tree(process.pid)
        self._stop_traffic()

    @property
    def log(self) -> Path:
        """What the migration has printed, apart from its result."""
        return self._directory / "migration.log"

    def dry_run(self) -> dict[str, int]:
        """How many records each group will read again, as `--dry-run` says; the migration's result must say the same, if nothing moves."""
        self._start("--dry-run")
        self._stated = self._finished()
        return self._stated

    def start(self) -> None:
        """Start the migration."""
        self._began = time.monotonic()
        self._start()

    def moments(self, kills: int) -> list[str]:
        """When to kill: the stages of the migration, in order, as the seed decides."""
        stages = [stage for stage in MOMENTS if self._trial.is_followed or stage == "copying"]
        chosen = self._random.choices(stages, [MOMENTS[stage] for stage in stages], k=kills)
        return sorted(chosen, key=stages.index)

    def kill(self, moment: str) -> str:
        """Kill the migration, or one process of it, in this stage, and start it again; return what was done, in words."""
        if moment != "copying":
            self._wait_until_copied()
        if moment == "cutting over":
            self._stop_traffic()
        # Part of what is still missing; the last part is read while the end is near.
        copied = self._copied()
        wanted = copied + self._random.uniform(0, 0.8) * max(0, self._trial.records - copied)
        self._wait_until(lambda: self._copied() >= wanted or self._has_ended())
        time.sleep(self._random.uniform(0, 0.5 if moment == "copying" else self._trial.idle_s + 2))
        if self._has_ended():
            return f"{moment}: it had ended before the kill"
        copied, words = self._copied(), self._kill_one()
        return f"{moment}, {copied} records copied: {words}"

    def finish(self) -> Outcome:
        """Let the migration end; return what is wrong then."""
        self._wait_until_copied()
        self._stop_traffic()
        stated = self._finished()
        took_s = time.monotonic() - self._began
        outcome = self._check(stated)
        ended = f", {self._failures} of them after a failure" if self._failures else ""
        return Outcome(outcome.wrong, f"{outcome.figures}; {took_s:.0f} s with all restarts{ended}")

    # --- the migration

    def _start(self, *more: str) -> None:
        trial = self._trial
        options = {
            "--bootstrap-server": self._broker.bootstrap_servers,
            "--partitions": str(trial.target_partitions),
            "--partitioner": trial.partitioner,
            "--groups": ",".join(group_positions({0: 0, 1: 0})),
            "--plan": str(self._plan),
        }
        given = [word for option in options.items() for word in option]
        following = ["--follow", "--idle", f"{trial.idle_s:g}"] if trial.is_followed else []
        command = [*trial.command, SOURCE, TARGET, *given, "--json", *following, *trial.more, *more]
        # The result is what it writes to stdout; a run that was killed leaves none.
        into = ["/bin/sh", "-c", 'exec "$@" > "$0"', str(self._result)]
        self._migration = ServerProcess([*into, *command], log_path=self.log)

    def _kill_one(self) -> str:
        """Kill one of the victims, and start it again."""
        assert self._migration is not None
        tree = process_tree(self._migration.pid)
        java = [process for process in tree if command_line(process).partition(" ")[0].endswith("/java")]
        victim = self._random.choice([each for each in self._trial.victims if java or each != "java"])
        if victim == BROKER:
            return self._restart_broker()
        self._left += tree
        words = {"tree": "all its processes were killed", "command": "the command was killed alone"}.get(victim, "")
        if victim == "java":
            java[0].kill()
            words = f"its Java process was killed, {self._ended_by_itself()}"
        if victim == "tree":
            kill_tree(self._migration.pid)
        self._migration.kill()
        self._start()
        return words

    def _restart_broker(self) -> str:
        """The command may go on, or end and say why; then it is started again."""
        self._may_fail = True
        gone_s = self._random.uniform(*BROKER_GONE_S)
        with self._producing.paused():
            self._broker.kill()
            time.sleep(gone_s)
            self._broker.start()
        return f"the broker was killed, and gone for {gone_s:.1f} s"

    def _starts_again(self) -> bool:
        """Whether the command ended with a failure after a kill of the broker, and was started again: once for each kill."""
        if not self._may_fail or self._migration is None or self._migration.status != 1:
            return False
        self._may_fail = False
        self._failures += 1
        self._start()
        return True

    def _ended_by_itself(self) -> str:
        """A command whose Java process is gone has to end, and to say that it failed."""
        assert self._migration is not None
        began = time.monotonic()
        while not self._has_ended() and time.monotonic() - began < ENDS_S_MAX:
            time.sleep(CHECK_EVERY_S)
        status = self._migration.stop() if self._has_ended() else None
        words = f"and it did not end in {ENDS_S_MAX} s" if status is None else f"and it ended with status {status}"
        if status is None:
            self._migration.kill()
        if status != 1:
            self._wrong.append(f"its Java process was killed, {words}")
        return f"{words}, {time.monotonic() - began:.1f} s later"

    def _finished(self) -> dict[str, int]:
        """Wait until the command ends; return how many records each group reads again, by its own words."""
        self._wait_until(self._has_ended)
        assert self._migration is not None
        status, self._migration = self._migration.stop(), None
        assert status == 0, f"the command ended with status {status}:\n{self._words()}"
        return stated_replay(json.loads(self._result.read_text()))

    def _has_ended(self) -> bool:
        return self._migration is None or not self._migration.is_running

    def _words(self) -> str:
        return self.log.read_text(errors="replace")[-4_000:]

    @property
    def _plan(self) -> Path:
        return self._directory / "plan.csv"

    @property
    def _result(self) -> Path:
        return self._directory / "result.json"

    # --- waiting

    def _copied(self) -> int:
        return sum(self._ends.of(TARGET).values())

    def _wait_until_copied(self) -> None:
        self._wait_until(lambda: self._copied() >= self._trial.records or self._has_ended())

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Raises AssertionError with the end of the log when the migration does not get on."""
        copied, deadline = self._copied(), time.monotonic() + PROGRESS_S_MAX
        while self._starts_again() or not condition():
            now_copied = self._copied()
            if now_copied > copied:
                copied, deadline = now_copied, time.monotonic() + PROGRESS_S_MAX
            assert time.monotonic() < deadline, f"no progress in {PROGRESS_S_MAX} s:\n{self._words()}"
            time.sleep(CHECK_EVERY_S)

    def _stop_traffic(self) -> None:
        if self._is_live:
            self._is_live = False
            # In this order: a group that has no members any more has nothing more to come.
            self._producing.close()
            self._consuming.close()

    # --- the checks

    def _check(self, stated: dict[str, int]) -> Outcome:
        servers, trial = self._broker.bootstrap_servers, self._trial
        choose = PARTITIONERS[trial.partitioner]
        written = {name: count for maker in self._makers for name, count in maker.written.items()}
        place = cache(lambda key: choose(key, trial.target_partitions))
        source = Source(read_topic(servers, SOURCE))
        check = TargetCheck(Expected(SOURCE, source, written, place))
        check.check(read_topic(servers, TARGET))
        wrong = self._wrong + self._writer.failures + check.wrong
        if sum(written.values()) != source.count:
            wrong.append(f"the source has {source.count} records, and {sum(written.values())} were acknowledged")
        if len(self._ends.of(TARGET)) != trial.target_partitions:
            wrong.append(f"the target has {len(self._ends.of(TARGET))} partitions")
        figures = [f"{source.count} records"]
        planned = planned_offsets(self._plan)
        for group in group_positions({0: 0, 1: 0}):
            carried = Carried(committed(servers, group, SOURCE), committed(servers, group, TARGET), stated.get(group, -1))
            found, replay = wrong_group(check.offset_map, range(trial.target_partitions), carried)
            if planned.get(group) != carried.target:
                found.append("the plan says something else than what is committed")
            if not trial.is_followed and self._stated and self._stated.get(group) != replay:
                found.append(f"{replay} records are read again, and {self._stated.get(group)} were stated beforehand")
            wrong += [f"{group}: {each}" for each in found]
            figures.append(f"{group} reads {replay} again")
        return Outcome(wrong, ", ".join(figures))


def stated_replay(document: Any) -> dict[str, int]:
    """The number of records that each group reads again, in the JSON that the command prints."""
    return {group: int(each["replay"]) for group, each in document["groups"].items()}


def planned_offsets(path: Path) -> dict[str, dict[int, int]]:
    """The offsets of each group in a file for `--reset-offsets --from-file`: group, topic, partition, offset."""
    offsets: dict[str, dict[int, int]] = {}
    with path.open(newline="") as file:
        for group, _, partition, offset in csv.reader(file):
            offsets.setdefault(group, {})[int(partition)] = int(offset)
    return offsets
