"""Days on which much happens at once to many groups, and how often the diagnosis of what an operator has of them is right.

A day takes minutes: sessions are short. Its members are of four client libraries; a ledger that only the scorer reads has what was done.
`--keep DIR` keeps the sources and the ledger of each day, and `--score DIR` scores a day that was kept.
"""

import argparse
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ottla.cli.processes import OttlaProcess
from ottla.history.sources.evidence import Cause
from tests.support.reference.apache_kafka import ApacheKafka
from trials.day.accidents import add_accidents
from trials.day.actions import KINDS
from trials.day.calibration import MODULE, Line, fit, lines_of, module_text
from trials.day.groups import Group, make_groups
from trials.day.kinds import Kind, Run, now_ms
from trials.day.ledger import Action, Day, Step
from trials.day.members import Member, preload
from trials.day.monotony import worsened_verdicts
from trials.day.recording import BROKER_LOG, read_day, write_day
from trials.day.scoring import HELD, RIGHT, WRONG, Score, read_evidence, report, score_day
from trials.day.world import Disturbances, World, make_broker, start_watch
from trials.harness.runs import Outcome, Results, add_seed_option
from trials.harness.world import add_broker_option

NAME = "day"
KEPT: Final = Path("tests/data/days")
"""The days with which rules are made."""
MINUTES: Final = 6.0
EVERY_S: Final = 4.4
OVERLAP: Final = 0.3
"""How often an action begins in a group where another one has not ended."""
MEMBERS_MAX, GROUP_MEMBERS_MAX = 30, 6
BAG_MIN: Final = 10
"""Kinds that wait for their turn; some of them have to wait until a group suits them."""
AT_ONCE: Final = 40
START_S_MAX: Final = 60


class Director:
    """Chooses what happens when, and writes the ledger."""

    def __init__(self, day: Day, world: World, groups: Sequence[Group], rng: random.Random) -> None:
        self._day = day
        self._world = world
        self._groups = groups
        self._rng = rng
        self._bag: list[Kind] = []
        self._lock = threading.Lock()
        self._is_way_taken = False
        """Whether an action has the broker, or the way to it."""

    def start(self) -> None:
        """Start all members, and wait until the groups are stable: what happens so far is not judged."""
        from_ms = now_ms()
        for group in self._groups:
            self._world.create_topic(next(iter(group.topics)), next(iter(group.topics.values())))
            for member in group.members.values():
                member.start()
        for group in self._groups:
            group.wait_until_divided(START_S_MAX)
        action = Action(kind="start", incident="none", planned=True, culprits=(), from_ms=from_ms, to_ms=now_ms(), failure="not judged")
        action.steps = [Step(group=group.name, from_ms=from_ms, to_ms=now_ms(), causes=(), is_required=False) for group in self._groups]
        self._day.actions.append(action)

    def run(self, minutes: float) -> None:
        """Let things happen for so long, and wait for the last of them."""
        end_s = time.monotonic() + minutes * 60
        next_s = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while time.monotonic() < end_s:
                self._revive()
                if time.monotonic() >= next_s and (chosen := self._choose()) is not None:
                    pool.submit(self._do, *chosen)
                    next_s += EVERY_S
                time.sleep(0.3)

    def _choose(self) -> tuple[Kind, list[Group], list[Member]] | None:
        """The next action of the bag that is possible now."""
        if len(self._bag) < BAG_MIN:
            self._bag += self._rng.sample(list(KINDS.values()), len(KINDS))
        may_overlap = self._rng.random() < OVERLAP
        with self._lock:
            for kind in self._bag:
                if (chosen := self._cast(kind, may_overlap=may_overlap)) is not None:
                    self._bag.remove(kind)
                    groups, actors = chosen
                    for group in groups:
                        group.actions += 1
                        group.taken |= {member.name for member in actors}
                    self._is_way_taken |= kind.is_of_broker or kind.is_behind_proxy
                    return kind, groups, actors
        return None

    def _cast(self, kind: Kind, *, may_overlap: bool) -> tuple[list[Group], list[Member]] | None:
        if kind.is_of_broker:
            is_free = not self._is_way_taken and (may_overlap or sum(group.actions for group in self._groups) <= 1)
            return (list(self._groups), []) if is_free else None
        if self._is_way_taken and (kind.is_behind_proxy or not may_overlap):
            return None
        if kind.is_behind_proxy:
            actors = [member for group in self._groups for member in group.present() if member.is_behind_proxy]
            groups = [group for group in self._groups if any(member.name in group.members for member in actors)]
            is_free = bool(actors) and (may_overlap or not any(group.actions for group in groups))
            return (groups, actors) if is_free else None
        groups = [group for group in self._groups if kind.suits(group) and (may_overlap or not group.actions)]
        for group in self._rng.sample(groups, len(groups)):
            if (members := self._actors(kind, group)) is not None:
                return [group], members
        return None

    def _actors(self, kind: Kind, group: Group) -> list[Member] | None:
        wanted = sum(member.is_wanted for member in group.members.values())
        if wanted < kind.members_min or (kind.is_of_group and group.taken):
            return None
        total = sum(member.is_wanted for each in self._groups for member in each.members.values())
        if not kind.actors and kind.incident == "scaling" and (wanted >= GROUP_MEMBERS_MAX or total >= MEMBERS_MAX):
            return None
        present = group.present(*kind.clients)
        count = len(present) if kind.is_of_group else kind.actors
        return self._rng.sample(present, count) if count <= len(present) and wanted - count >= kind.members_min - 2 else None

    def _do(self, kind: Kind, groups: list[Group], actors: list[Member]) -> None:
        culprits = tuple(member.name for member in actors) or (("broker",) if kind.is_of_broker else ())
        action = Action(kind=kind.name, incident=kind.incident, planned=kind.planned, culprits=culprits, from_ms=now_ms())
        run = Run(action, self._world, groups, actors, random.Random(self._rng.randrange(1 << 32)))
        try:
            kind.act(run)
        except Exception as error:  # noqa: BLE001 - the scorer leaves out what did not happen as it should
            action.failure = repr(error)
        action.to_ms = now_ms()
        if action.failure:
            action.steps += [
                Step(group=group.name, from_ms=action.from_ms, to_ms=action.to_ms, causes=(), is_required=False) for group in groups
            ]
        with self._lock:
            self._day.actions.append(action)
        run.between(1, 3)
        with self._lock:
            for group in groups:
                group.actions -= 1
                group.taken -= {member.name for member in actors}
            self._is_way_taken &= not (kind.is_of_broker or kind.is_behind_proxy)

    def _revive(self) -> None:
        """Start members that have ended by themselves, as a supervisor does."""
        for group in self._groups:
            with self._lock:
                dead = [member for member in group.members.values() if member.is_wanted and not member.is_running]
                dead = [member for member in dead if member.name not in group.taken]
            for member in dead:
                self._day.actions.append(revival(group.name, member.name, now_ms(), died_of=member.died_of))
                member.start()


def revival(group: str, member: str, at_ms: int, *, died_of: int | None) -> Action:
    """What the ledger says of a member that is started again since it had ended by itself: a crash where its library aborted."""
    causes: tuple[str, ...] = (Cause.RESTART_DYNAMIC, Cause.JOIN_NEW, Cause.COLD_START, Cause.EXPIRE_HEARTBEAT, Cause.LEAVE_CLOSE)
    if died_of is not None:
        causes = (Cause.RESTART_DYNAMIC, Cause.EXPIRE_HEARTBEAT, Cause.STATIC_REJOIN)
    step = Step(group=group, from_ms=at_ms - 1_000, to_ms=at_ms + 10_000, causes=causes, is_required=False)
    kind, incident = ("revive", "none") if died_of is None else (f"died of {signal.Signals(died_of).name}", "crash")
    return Action(kind=kind, incident=incident, planned=False, culprits=(member,), from_ms=at_ms, to_ms=at_ms, steps=[step])


def make_day(seed: int, broker_kind: str, minutes: float, directory: Path) -> Day:
    """Let a day happen in `directory`; what an operator has of it is in its `sources`."""
    rng = random.Random(f"{broker_kind} {seed}")
    for name in ("sources/clients", "sources/archive", "reports"):
        (directory / name).mkdir(parents=True)
    preload()
    day = Day(seed=seed, broker=broker_kind, from_ms=now_ms())
    broker = make_broker(broker_kind, directory)
    disturbances = Disturbances()
    with broker:
        world = World(broker, directory)
        groups = make_groups(world, rng, has_consumer_protocol=broker_kind == ApacheKafka.kind)
        watch = start_watch(world)
        try:
            director = Director(day, world, groups, rng)
            director.start()
            disturbances.start()
            director.run(minutes)
            day.to_ms = now_ms()
            disturbances.close()
            time.sleep(3)
        finally:
            watch.stop()
            for group in groups:
                for member in group.members.values():
                    member.thaw()
                    member.kill()
            world.close()
    members = [member for group in groups for member in group.members.values()]
    day.disturbed = disturbances.times
    day.skews_s = {member.name: member.skew_s for member in members if member.skew_s}
    day.groups = {group.name: [f"{each.name} {each.settings.client}" for each in group.members.values()] for group in groups}
    log_path = broker.log_path if isinstance(broker, OttlaProcess | ApacheKafka) else None
    assert log_path is not None, "both kinds of brokers have a log"
    shutil.copy(log_path, directory / "sources" / BROKER_LOG)
    with log_path.open(errors="replace") as lines:
        add_accidents(day, lines)
    return day


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which broker, for how long; what to keep, or to score again."""
    add_broker_option(parser)
    add_seed_option(parser, "1", "a day each")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long a day takes (default: {MINUTES:g})")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the sources and the ledger of each day in DIR/BROKER-SEED")
    parser.add_argument("--score", type=Path, metavar="DIR", help="score the day that was kept in DIR; nothing happens")
    parser.add_argument(
        "--subsets", type=int, default=0, metavar="N", help="with --score: list what N sets of sources more make worse, too"
    )
    parser.add_argument("--calibrate", action="store_true", help="fit the confidences to the days in tests/data/days; nothing happens")
    parser.add_argument("--wrong", action="store_true", help="print each incident that is not told right, with its verdicts")


def run(options: argparse.Namespace, results: Results) -> None:
    """Let each day happen and score it, or score one that was kept."""
    if options.score is not None:
        with tempfile.TemporaryDirectory(prefix="ottla-day-") as directory:
            day = read_day(options.score, Path(directory))
            _say(results, day, score_day(day, Path(directory)), with_wrong=options.wrong)
            if options.subsets:
                for line in worsened_verdicts(day, read_evidence(Path(directory)), random.Random(day.seed), options.subsets):
                    results.say(f"worse with more sources: {line}")
        return
    if options.calibrate:
        MODULE.write_text(module_text(fit(line for path in sorted(KEPT.iterdir()) if path.is_dir() for line in _lines(path))))
        return
    results.run_seeds(options.seed, lambda seed, directory: run_day(options, seed, directory, results))


def _lines(kept: Path) -> list[Line]:
    with tempfile.TemporaryDirectory(prefix="ottla-day-") as directory:
        day = read_day(kept, Path(directory))
        return lines_of(day, read_evidence(Path(directory)))


def run_day(options: argparse.Namespace, seed: int, directory: Path, results: Results) -> Outcome:
    """One day and its scores. It is wrong where something could not be done; how good the diagnosis is, is for people to judge."""
    day = make_day(seed, options.broker, options.minutes, directory)
    if options.keep is not None:
        write_day(day, directory, options.keep / f"{options.broker}-{seed}")
    scores = score_day(day, directory / "sources")
    _say(results, day, scores, with_wrong=options.wrong)
    of_all = scores["all"]
    figures = f"{of_all.count(RIGHT)} right, {of_all.count(HELD)} held, {of_all.count(WRONG)} wrong of {len(of_all.incidents)}"
    return Outcome([f"{each.kind}: {each.failure}" for each in day.actions if each.failure and each.kind != "start"], figures)


def _say(results: Results, day: Day, scores: dict[str, Score], *, with_wrong: bool) -> None:
    for line in report(day, scores, with_wrong=with_wrong):
        results.say(line)
