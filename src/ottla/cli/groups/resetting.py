"""`ottla groups --reset-offsets`: computes new offsets for inactive groups, prints them, and commits them with --execute.

Plans come sorted by group, topic and partition, where Kafka's tool has no order. Files are read before anything is asked.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.cli.groups.failures import CommandFailed, UsageProblem, message, named
from ottla.cli.groups.options import SCENARIOS, GroupsOptions, parse_number
from ottla.cli.groups.reset_arithmetic import Offsets, clamp, parse_topic, shift, shown
from ottla.cli.groups.reset_plan_file import read_plan, write_plan
from ottla.cli.groups.tables import Column, table
from ottla.cli.groups.times import parse_datetime_ms, parse_duration_ms
from ottla.cli.groups.transcript import Transcript
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, CommittedOffset, Failure
from ottla.core.errors import ErrorCode
from ottla.core.java_text import java_order
from ottla.core.model import TopicPartition

INACTIVE: Final = ("Empty", "Dead")
NO_RECORD: Final = -1


def reset_offsets(admin: AdminClient, options: GroupsOptions, transcript: Transcript, now_ms: Callable[[], int]) -> None:
    """Plans every group, carries the plans out with --execute, and says them as a table or, with --export, as CSV."""
    names = [group.group_id for group in admin.list_groups()] if options.has("all-groups") else list(options.groups)
    resetter = Resetter(admin, options, transcript, now_ms)
    plans: dict[str, Offsets] = {}
    for name, answer in sorted(admin.describe_groups(names).items(), key=lambda item: java_order(item[0])):
        if isinstance(answer, Failure) and answer.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise CommandFailed(named(answer))
        if not isinstance(answer, Failure) and answer.state not in INACTIVE:
            transcript.error(f"Assignments can only be reset if the group '{name}' is inactive, but the current state is {answer.state}.")
            plans[name] = {}
            continue
        plans[name] = resetter.plan(name)
        if plans[name] and not options.is_dry_run:
            resetter.execute(name, plans[name])
    transcript.add(
        executed=not options.is_dry_run,
        groups=[
            {"group": name, "offsets": [{**partition._asdict(), "new_offset": offset} for partition, offset in plan.items()]}
            for name, plan in plans.items()
        ],
    )
    if options.has("export"):
        transcript.export(write_plan(plans, with_group=len(options.all("group")) != 1))
    else:
        _say_table(plans, transcript)


def _say_table(plans: Mapping[str, Offsets], transcript: Transcript) -> None:
    names = max([15, *map(len, plans)])
    columns = [Column("GROUP", names), Column("TOPIC", 15, True), Column("PARTITION", 10), Column("NEW-OFFSET", 0)]
    rows = [[name, *partition, offset] for name, plan in plans.items() for partition, offset in plan.items()]
    transcript.say("", *(table(columns, rows) if plans else []))


class Resetter:
    """Plans one group after another by the one scenario that was chosen. `now_ms` is asked once a group, for --by-duration."""

    def __init__(self, admin: AdminClient, options: GroupsOptions, transcript: Transcript, now_ms: Callable[[], int]) -> None:
        self._admin = admin
        self._options = options
        self._transcript = transcript
        self._now_ms = now_ms

    def plan(self, group: str) -> Offsets:
        """The new offset of every partition in scope. Raises UsageProblem or CommandFailed."""
        partitions = self._scope(group)
        self._check(partitions)
        plan = self._scenario(group, partitions)
        return {partition: plan[partition] for partition in sorted(plan, key=lambda each: (java_order(each.topic), each.partition))}

    def execute(self, group: str, plan: Offsets) -> None:
        """Commit the plan. Raises CommandFailed with the first refusal."""
        answer = self._admin.commit(group, plan)
        failures = [answer] if isinstance(answer, Failure) else [failure for failure in answer.values() if failure is not None]
        if failures:
            raise CommandFailed(message(failures[0]))

    def _committed(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        answer = self._admin.committed([group])[group]
        if isinstance(answer, Failure):
            raise CommandFailed(named(answer))
        return answer

    def _scope(self, group: str) -> list[TopicPartition]:
        options = self._options
        if options.has("all-topics"):
            return list(self._committed(group))
        if options.has("topic"):
            return partitions_of(self._admin, options.all("topic"))
        if not options.has("from-file"):
            raise UsageProblem("One of the reset scopes should be defined: --all-topics, --topic.")
        return []

    def _check(self, partitions: Sequence[TopicPartition]) -> None:
        leaders: dict[TopicPartition, int | None] = {}
        for topic, answer in self._admin.describe_topics(partition.topic for partition in partitions).items():
            if isinstance(answer, Failure):
                raise CommandFailed(named(answer))
            leaders.update({TopicPartition(topic, number): leader for number, leader in answer.leaders.items()})
        for what, wrong in (
            ("do not exist", [partition for partition in partitions if partition not in leaders]),
            ("have no leader", [partition for partition in partitions if leaders.get(partition) is None]),
        ):
            if wrong:
                raise CommandFailed(f'The partitions "{",".join(map(shown, wrong))}" {what}')

    def _scenario(self, group: str, partitions: Sequence[TopicPartition]) -> Offsets:
        options = self._options
        if options.has("to-offset"):
            # Of several Kafka's tool takes the first, here alone.
            offset = parse_number(options.all("to-offset")[0], "to-offset")
            return self._clamped(dict.fromkeys(partitions, offset))
        if options.has("to-earliest"):
            return self._admin.list_offsets(partitions, EARLIEST)
        if options.has("to-latest"):
            return self._admin.list_offsets(partitions, LATEST)
        if options.has("shift-by"):
            return self._clamped(shift(partitions, self._committed(group), options.number("shift-by") or 0))
        if options.has("to-datetime"):
            return self._at(partitions, parse_datetime_ms(options.all("to-datetime")[0]))
        if options.has("by-duration"):
            return self._at(partitions, self._now_ms() - parse_duration_ms(options.one("by-duration") or ""))
        if options.has("from-file"):
            return self._from_file(group)
        if options.has("to-current"):
            committed = {partition: item.offset for partition, item in self._committed(group).items() if item.offset >= 0}
            missing = [partition for partition in partitions if partition not in committed]
            return {each: committed[each] for each in partitions if each in committed} | self._admin.list_offsets(missing, LATEST)
        scenarios = ", ".join(f"[{name}]" for name in SCENARIOS)
        raise UsageProblem(f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]")

    def _clamped(self, requested: Mapping[TopicPartition, int]) -> Offsets:
        clamped = clamp(requested, self._admin.list_offsets(requested, EARLIEST), self._admin.list_offsets(requested, LATEST))
        for warning in clamped.warnings:
            seconds, milliseconds = divmod(self._now_ms(), 1000)
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
            self._transcript.warn(f"[{at},{milliseconds:03}] WARN {warning} (ottla.groups)")
        return clamped.offsets

    def _at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        """Offsets by time. A negative time stands for something else in ListOffsets: nothing is older than 1970."""
        found = self._admin.list_offsets(partitions, max(timestamp_ms, 0))
        empty = [partition for partition, offset in found.items() if offset == NO_RECORD]
        for topic, partition in sorted(empty):
            self._transcript.say("", f"Warn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
        return found | self._admin.list_offsets(empty, LATEST)

    def _from_file(self, group: str) -> Offsets:
        path = Path(self._options.all("from-file")[0])
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise CommandFailed(f"java.io.IOException: Unable to read file {path}") from error
        plan = read_plan(text, self._options.all("group")).get(group)
        if plan is None:
            self._transcript.error(f"No reset plan for group {group} found")
            return {}
        self._check(list(plan))
        return self._clamped(plan)


def partitions_of(admin: AdminClient, arguments: Iterable[str]) -> list[TopicPartition]:
    """The partitions that `topic` and `topic:0,1` name, each once. Raises UsageProblem, or CommandFailed for an unknown topic."""
    named_ones = [partition for argument in arguments if ":" in argument for partition in parse_topic(argument)]
    whole: list[TopicPartition] = []
    for topic, answer in admin.describe_topics(argument for argument in arguments if ":" not in argument).items():
        if isinstance(answer, Failure):
            raise CommandFailed(message(answer))
        whole += [TopicPartition(topic, number) for number in answer.leaders]
    return list(dict.fromkeys([*named_ones, *whole]))
