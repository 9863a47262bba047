"""`ottla groups --reset-offsets`, `--delete` and `--delete-offsets`: new offsets for inactive groups, or none.

Plans come sorted by group, topic and partition, where Kafka's tool has no order; files are read before the cluster is asked. A plan as CSV
is what `--export` prints and `--from-file` reads: `topic,partition,offset`, or with the group before it. Whether something may be deleted
is the coordinator's decision.
"""

import csv
import io
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ottla.cli.clusters import CommandFailed, UsageProblem, message, named
from ottla.cli.groups.options import (
    NUMBER_DIGITS_MAX,
    SCENARIOS,
    Column,
    GroupsOptions,
    Transcript,
    parse_datetime_ms,
    parse_duration_ms,
    parse_number,
    table,
)
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, CommittedOffset, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.text import java_order

NewOffsets = dict[TopicPartition, int]
INT_MAX = 2**31 - 1


class Clamped(NamedTuple):
    """Offsets that a log can have, and a warning for each that had to be moved."""

    offsets: NewOffsets
    warnings: tuple[str, ...]


def shown(partition: TopicPartition) -> str:
    """A partition as Kafka prints it: `topic-0`."""
    return f"{partition.topic}-{partition.partition}"


def parse_topic(argument: str) -> list[TopicPartition]:
    """The partitions of `topic:0,1,2`. Raises UsageProblem, also when there is no colon."""
    topic, *rest = argument.rstrip(":").split(":")
    if len(rest) != 1:
        raise UsageProblem(f"Invalid topic arg '{argument}', expected topic name and partitions")
    return [TopicPartition(topic, _number(text, argument)) for text in rest[0].rstrip(",").split(",")]


def _number(text: str, argument: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > NUMBER_DIGITS_MAX or abs(int(text)) > INT_MAX:
        raise UsageProblem(f"Invalid partition '{text}' specified in topic arg '{argument}''")
    return int(text)


def shift(partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, CommittedOffset], by: int) -> NewOffsets:
    """Each partition's committed offset and `by` together. Raises UsageProblem for a partition that has none."""
    shifted = {}
    for partition in partitions:
        current = committed.get(partition)
        if current is None or current.offset < 0:
            raise UsageProblem(f"Cannot shift offset for partition {shown(partition)} since there is no current committed offset")
        shifted[partition] = current.offset + by
    return shifted


def clamp(requested: Mapping[TopicPartition, int], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Clamped:
    """Offsets within what each log holds: what lies before or behind it becomes its start or its end."""
    offsets: NewOffsets = {}
    warnings = []
    for partition, offset in requested.items():
        if offset > latest[partition]:
            offsets[partition] = latest[partition]
            compared = "higher than latest"
        elif offset < earliest[partition]:
            offsets[partition] = earliest[partition]
            compared = "lower than earliest"
        else:
            offsets[partition] = offset
            continue
        warnings.append(
            f"New offset ({offset}) is {compared} offset for topic partition {shown(partition)}. Value will be set to {offsets[partition]}"
        )
    return Clamped(offsets, tuple(warnings))


CHECKED_CHARS_MAX: Final = 24
"""Kafka's CSV writer puts longer texts between quotes without looking whether they need them."""
_PLAIN: Final = re.compile(r'[^,"\s\\]*')


# Spreadsheets take such a name for a formula. An apostrophe before it, which `read_plan` removes, says that it is text.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def write_plan(plans: Mapping[str, NewOffsets], *, with_group: bool) -> str:
    """One line a partition, with the group in front of it when there may be several."""
    lines = []
    for group, offsets in plans.items():
        for (topic, partition), offset in offsets.items():
            head = f"{_cell(group)}," if with_group else ""
            lines.append(f"{head}{_cell(topic)},{partition},{offset}\n")
    return "".join(lines)


def _cell(value: str) -> str:
    if _FORMULA.match(value):
        value = f"'{value}"
    if len(value) <= CHECKED_CHARS_MAX and _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace('"', '""') + '"'


def read_plan(text: str, groups: Sequence[str]) -> dict[str, NewOffsets]:
    """Plans by group. Lines without a group are for the one that was named. Raises CommandFailed, naming the line."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    single = len(groups) == 1 and bool(rows) and len(rows[0]) == 3
    plans: dict[str, NewOffsets] = {}
    for number, row in enumerate(rows, 1):
        fields = [groups[0], *row] if single else row
        if len(fields) != 4:
            expected = "topic,partition,offset" if single else "group,topic,partition,offset"
            raise CommandFailed(f"line {number} of the plan is {','.join(row)!r}, not {expected}")
        group, topic, partition, offset = (field.strip() for field in fields)
        group, topic = _name(group), _name(topic)
        key = TopicPartition(topic, parse_number(partition, f"from-file, line {number}"))
        plans.setdefault(group, {})[key] = parse_number(offset, f"from-file, line {number}")
    return plans


def _name(field: str) -> str:
    return field[1:] if field.startswith("'") and _FORMULA.match(field) else field


INACTIVE: Final = ("Empty", "Dead")
NO_RECORD: Final = -1


def reset_offsets(admin: AdminClient, options: GroupsOptions, transcript: Transcript, now_ms: Callable[[], int]) -> None:
    """Plans every group, carries the plans out with --execute, and says them as a table or, with --export, as CSV."""
    names = [group.group_id for group in admin.list_groups()] if options.has("all-groups") else list(options.groups)
    resetter = Resetter(admin, options, transcript, now_ms)
    plans: dict[str, NewOffsets] = {}
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


def _say_table(plans: Mapping[str, NewOffsets], transcript: Transcript) -> None:
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

    def plan(self, group: str) -> NewOffsets:
        """The new offset of every partition in scope. Raises UsageProblem or CommandFailed."""
        partitions = self._scope(group)
        self._check(partitions)
        plan = self._scenario(group, partitions)
        return {partition: plan[partition] for partition in sorted(plan, key=lambda each: (java_order(each.topic), each.partition))}

    def execute(self, group: str, plan: NewOffsets) -> None:
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

    def _scenario(self, group: str, partitions: Sequence[TopicPartition]) -> NewOffsets:
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

    def _clamped(self, requested: Mapping[TopicPartition, int]) -> NewOffsets:
        clamped = clamp(requested, self._admin.list_offsets(requested, EARLIEST), self._admin.list_offsets(requested, LATEST))
        for warning in clamped.warnings:
            seconds, milliseconds = divmod(self._now_ms(), 1000)
            at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
            self._transcript.warn(f"[{at},{milliseconds:03}] WARN {warning} (ottla.groups)")
        return clamped.offsets

    def _at(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> NewOffsets:
        """Offsets by time. A negative time stands for something else in ListOffsets: nothing is older than 1970."""
        found = self._admin.list_offsets(partitions, max(timestamp_ms, 0))
        empty = [partition for partition, offset in found.items() if offset == NO_RECORD]
        for topic, partition in sorted(empty):
            self._transcript.say("", f"Warn: Partition {partition} from topic {topic} is empty. Falling back to latest known offset.")
        return found | self._admin.list_offsets(empty, LATEST)

    def _from_file(self, group: str) -> NewOffsets:
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


WHOLE_TOPIC: Final = -1
OF_THE_GROUP: Final = frozenset(
    {ErrorCode.INVALID_GROUP_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.NON_EMPTY_GROUP}
)
OF_PARTITIONS: Final = frozenset(
    {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)


def delete_groups(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Delete the groups and say which are gone."""
    names = [group.group_id for group in admin.list_groups()] if options.has("all-groups") else list(options.groups)
    results = dict(sorted(admin.delete_groups(names).items(), key=lambda item: java_order(item[0])))
    failed = {name: failure for name, failure in results.items() if failure is not None}
    deleted = ", ".join(f"'{name}'" for name in results if name not in failed)
    transcript.add(
        groups=[{"group": name, "deleted": failure is None, "error": _failure_text(failure)} for name, failure in results.items()]
    )
    if not failed:
        transcript.say(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    transcript.error("Deletion of some consumer groups failed:")
    transcript.say(*(f"* Group '{name}' could not be deleted due to: {named(failure)}" for name, failure in failed.items()))
    if deleted:
        transcript.say("", f"These consumer groups were deleted successfully: {deleted}")


def delete_offsets(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Delete what one group committed for topics or partitions, and say how it went for each."""
    group = options.one("group") or ""
    topics = options.all("topic")
    partitions = [partition for argument in topics if ":" in argument for partition in parse_topic(argument)]
    results: dict[TopicPartition, Failure | None] = {}
    for topic, answer in admin.describe_topics(argument for argument in topics if ":" not in argument).items():
        if isinstance(answer, Failure):
            results[TopicPartition(topic, WHOLE_TOPIC)] = answer
        else:
            partitions += [TopicPartition(topic, number) for number in answer.leaders]
    partitions = list(dict.fromkeys(partitions))
    answers = admin.delete_offsets(group, partitions)
    failures = [answers] if isinstance(answers, Failure) else [failure for failure in answers.values() if failure is not None]
    results |= {partition: answers if isinstance(answers, Failure) else answers.get(partition) for partition in partitions}
    _say_summary(group, failures[0] if failures else None, transcript)
    _say_results(group, results, transcript)


def _say_summary(group: str, failure: Failure | None, transcript: Transcript) -> None:
    if failure is None:
        transcript.say(f"Request succeeded for deleting offsets from group {group}.")
    elif failure.code in OF_THE_GROUP:
        transcript.error(message(Failure(failure.code)))
    elif failure.code in OF_PARTITIONS:
        transcript.error("Encountered some partition-level error, see the follow-up details.")
    else:
        transcript.error(f"Encountered some unknown error: {failure.code.name}")


def _say_results(group: str, results: dict[TopicPartition, Failure | None], transcript: Transcript) -> None:
    ordered = sorted(results.items(), key=lambda item: java_order(f"{item[0].topic}{item[0].partition}"))
    rows = [
        [
            partition.topic,
            None if partition.partition == WHOLE_TOPIC else partition.partition,
            "Successful" if failure is None else f"Error: {named(failure)}",
        ]
        for partition, failure in ordered
    ]
    transcript.say("", *table([Column("TOPIC", 15, True), Column("PARTITION", 10), Column("STATUS", 15)], rows))
    transcript.add(
        group=group,
        partitions=[
            {
                "topic": topic,
                "partition": None if number == WHOLE_TOPIC else number,
                "deleted": failure is None,
                "error": _failure_text(failure),
            }
            for (topic, number), failure in ordered
        ],
    )


def _failure_text(failure: Failure | None) -> str | None:
    return None if failure is None else f"{failure.code.name}: {message(failure)}"
