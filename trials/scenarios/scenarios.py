"""Scenario files: commands to a group coordinator and their effects, as plain text that can be read, run and rewritten.

A file has comments (`#`) and blocks. A block is one or more command lines, a line `----`, and the effects, up to an empty line. `check`
runs the commands on a new coordinator and compares the effects; with OTTLA_REWRITE_SCENARIOS=1 it rewrites them, to be read as a diff.

Besides the commands of `scenarios.commands` a block may contain:

    settings group_max_size=2      the operator's settings; only at the start
    topics flights=6 weather=2     the topics of the cluster from now on, with their partitions
    wait 10s                       time passes; every timer that fires is shown with its time
    expire                         one complete expiry pass over the offsets
    clock +1h, clock -1h           the time of day jumps; no time passes
    append-fails REQUEST_TIMED_OUT the next append fails
    restart                        the broker restarts: a new coordinator replays the log
    loading, loaded                the same in two steps
    resign                         another broker takes the partition
    dead g                         the group becomes Dead, as between its deletion and the tombstone
    show g                         a snapshot of the group
    given join g m1                `given` before any line: its effects are not shown
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ottla.coordinator.coordinator import FinishLoading, Resign
from ottla.groups.classic.states import GroupState
from ottla.groups.commands import ExpireOffsets, Request
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings, MigrationPolicy
from ottla.groups.snapshots import GroupSnapshot
from ottla.protocol.errors import ErrorCode
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.harness.runs import Outcome, Results
from trials.scenarios.commands import ScenarioError, duration_ms, parse_command, split_line, topic_id
from trials.scenarios.effects import NONE_LINE, render_effects

NAME = "scenarios"
FOLDER = Path("tests/scenarios")
REWRITE_FLAG = "OTTLA_REWRITE_SCENARIOS"
DIVIDER = "----"
GIVEN = "given "
TIMERS_MAX = 10_000
"""How many timers one `wait` may fire: more are taken for an endless loop."""


@dataclass(frozen=True, slots=True)
class Block:
    """Part of a file: comment lines, or commands with their effects."""

    comments: tuple[str, ...]
    commands: tuple[str, ...]
    effects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScenarioTopic:
    """A topic of the cluster."""

    name: str
    topic_id: bytes
    leaders: tuple[int, ...]


class ScenarioTopics:
    """The topics of the cluster: those that a line says."""

    def __init__(self) -> None:
        self.topics: dict[str, ScenarioTopic] = {}
        self.topics_by_id: dict[bytes, ScenarioTopic] = {}
        self.topics_version = 0
        self.topic_versions: dict[str, int] = {}
        self.topics_created_version = 0

    def set(self, counts: dict[str, int]) -> None:
        """These are the topics from now on."""
        self.topics_version += 1
        if counts.keys() - self.topics.keys():
            self.topics_created_version = self.topics_version
        before = {name: len(topic.leaders) for name, topic in self.topics.items()}
        changed = [name for name in before.keys() | counts.keys() if before.get(name) != counts.get(name)]
        self.topic_versions.update(dict.fromkeys(changed, self.topics_version))
        self.topics = {name: ScenarioTopic(name, topic_id(name), (0,) * count) for name, count in counts.items()}
        self.topics_by_id = {topic.topic_id: topic for topic in self.topics.values()}


class Scenario:
    """One coordinator with its log and clock, driven line by line."""

    def __init__(self) -> None:
        self._settings = GroupSettings()
        self._topics = ScenarioTopics()
        self._shell = CoordinatorShell(self._make)
        self._shell.run(FinishLoading(), 0)
        self._now_ms = 0
        self._requests = 0
        self._directives: dict[str, Callable[[list[str], dict[str, str]], list[str]]] = {
            "settings": self._set,
            "topics": self._set_topics,
            "wait": self._wait,
            "expire": self._expire,
            "append-fails": self._append_fails,
            "clock": self._set_clock,
            "restart": self._restart,
            "loading": self._begin_loading,
            "loaded": self._finish_loading,
            "resign": self._resign,
            "dead": self._dead,
            "show": self._show,
        }

    def run_line(self, line: str) -> list[str]:
        """Run one command line; returns the lines of its effects."""
        if line.startswith(GIVEN):
            self.run_line(line.removeprefix(GIVEN))
            return []
        verb, words, options = split_line(line)
        directive = self._directives.get(verb)
        if directive is not None:
            return directive(words, options)
        self._requests += 1
        command = parse_command(line, self._requests)
        effects = self._shell.run(command, self._now_ms)
        if isinstance(command, Request) and all(reply.to != self._requests for reply in effects.replies):
            return [f"parked #{self._requests}", *(shown for shown in render_effects(effects) if shown != NONE_LINE)]
        return render_effects(effects)

    def _make(self) -> GroupCoordinator:
        return GroupCoordinator(self._settings, topics=self._topics)

    def _set_topics(self, _: list[str], options: dict[str, str]) -> list[str]:
        self._topics.set({name: int(count) for name, count in options.items()})
        return []

    def _set(self, _: list[str], options: dict[str, str]) -> list[str]:
        known = {field.name for field in fields(GroupSettings)}
        if not options.keys() <= known:
            raise ScenarioError(f"no such settings: {', '.join(options.keys() - known)}")
        values: dict[str, Any] = {
            key: MigrationPolicy(value) if key == "consumer_migration_policy" else duration_ms(value) for key, value in options.items()
        }
        self._settings = replace(self._settings, **values)
        self._shell.restart(self._now_ms)
        return []

    def _wait(self, words: list[str], _: dict[str, str]) -> list[str]:
        end_ms = self._now_ms + duration_ms(words[0])
        lines = []
        for _fired in range(TIMERS_MAX):
            deadline_ms = self._shell.coordinator.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self._now_ms = max(self._now_ms, deadline_ms)
            effects = self._shell.fire_timers(self._now_ms)
            assert effects is not None, "a due timer did not fire"
            shown = render_effects(effects)
            if shown != [NONE_LINE]:
                lines += [f"at {self._now_ms}", *(f"  {line}" for line in shown)]
        else:
            raise ScenarioError("timers fire without end")
        self._now_ms = end_ms
        return lines or [NONE_LINE]

    def _expire(self, _: list[str], __: dict[str, str]) -> list[str]:
        lines = self._expire_once()
        while self._shell.coordinator.is_expiring:
            lines += self._expire_once()
        return lines or [NONE_LINE]

    def _expire_once(self) -> list[str]:
        shown = render_effects(self._shell.run(ExpireOffsets(), self._now_ms))
        return [] if shown == [NONE_LINE] else shown

    def _set_clock(self, words: list[str], _: dict[str, str]) -> list[str]:
        sign = -1 if words[0].startswith("-") else 1
        self._shell.time_of_day_offset_ms += sign * duration_ms(words[0].lstrip("+-"))
        return []

    def _append_fails(self, words: list[str], _: dict[str, str]) -> list[str]:
        self._shell.fail_next_append = ErrorCode[words[0]]
        return []

    def _restart(self, _: list[str], __: dict[str, str]) -> list[str]:
        return render_effects(self._shell.restart(self._now_ms))

    def _begin_loading(self, _: list[str], __: dict[str, str]) -> list[str]:
        self._shell.begin_loading()
        return []

    def _finish_loading(self, _: list[str], __: dict[str, str]) -> list[str]:
        return render_effects(self._shell.run(FinishLoading(), self._now_ms))

    def _resign(self, _: list[str], __: dict[str, str]) -> list[str]:
        return render_effects(self._shell.run(Resign(), self._now_ms))

    def _dead(self, words: list[str], _: dict[str, str]) -> list[str]:
        self._shell.groups[words[0]].transition(GroupState.DEAD, self._now_ms)
        return []

    def _show(self, words: list[str], _: dict[str, str]) -> list[str]:
        for group in self._shell.coordinator.snapshot().groups:
            if group.group_id == words[0]:
                return _show_group(group)
        return [f"no group {words[0]}"]


def parse(text: str) -> list[Block]:
    """The blocks of a file; ScenarioError for commands without a divider."""
    blocks = []
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        comments = tuple(line for line in lines if line.startswith("#"))
        rest = [line for line in lines if not line.startswith("#")]
        if rest and DIVIDER not in rest:
            raise ScenarioError(f"no line {DIVIDER} after: {rest[0]}")
        at = rest.index(DIVIDER) if rest else 0
        blocks.append(Block(comments, tuple(rest[:at]), tuple(rest[at + 1 :])))
    return blocks


def run_text(text: str) -> str:
    """The file with the effects of running its commands now."""
    scenario = Scenario()
    paragraphs = []
    for block in parse(text):
        lines = list(block.comments)
        if block.commands:
            lines += [*block.commands, DIVIDER]
            for command in block.commands:
                lines += scenario.run_line(command)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def check(path: Path) -> None:
    """Run a file and compare its effects, or rewrite them if OTTLA_REWRITE_SCENARIOS is set. Raises AssertionError if they differ."""
    before = path.read_text()
    after = run_text(before)
    if os.environ.get(REWRITE_FLAG):
        if after != before:
            path.write_text(after)
        return
    assert after == before, f"{path.name} has other effects now; `make scenarios` rewrites it, then read the diff"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which files."""
    parser.add_argument("files", nargs="*", type=Path, help=f"default: all in {FOLDER}")
    parser.add_argument("--print", action="store_true", help="print the effects instead of comparing them")


def run(options: argparse.Namespace, results: Results) -> None:
    """Check each file, or print its effects."""
    for path in options.files or sorted(FOLDER.rglob("*.txt")):
        if options.print:
            results.say(run_text(path.read_text()).rstrip("\n"))
            continue
        try:
            check(path)
        except AssertionError as difference:
            results.verdict(str(path), Outcome([str(difference)]))
        else:
            results.verdict(str(path), Outcome([]))


def _show_group(group: GroupSnapshot) -> list[str]:
    lines = [
        f"group  {group.group_id} {group.state} gen={group.generation} protocol={group.protocol or '-'} "
        f"leader={group.leader or '-'} pending=[{', '.join(group.pending_member_ids)}]"
    ]
    for member in group.members:
        waits = f" waits in {member.parked_in}" if member.parked_in else ""
        lines.append(f"member {member.member_id} assigned={dict(member.assigned)}{waits}")
    for topic, offsets in group.offsets.items():
        lines += [f"offset {topic}/{partition} = {value.offset}" for partition, value in offsets.items()]
    return lines
