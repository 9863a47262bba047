"""`ottla groups --list` and `--describe`: which groups there are, who reads what, how far each has come, and who coordinates.

Groups come sorted by name, where Kafka's tool has no order. A description is of one moment: nothing is asked twice, and nothing is changed.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.cli.clusters import CommandFailed, UsageProblem, named
from ottla.cli.groups.options import Column, GroupsOptions, Transcript, table, text_of
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import LATEST, CommittedOffset, DescribedGroup, DescribedMember, Failure, ListedGroup
from ottla.client.admin.waiting_groups import waiting_partitions
from ottla.client.errors import ClientError
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from ottla.text import java_order


class OffsetRow(NamedTuple):
    """A partition of a group; None is what there is not: a commit, a leader to ask for the end, a member."""

    topic: str
    partition: int
    leader_epoch: int | None
    offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def offset_rows(
    group: DescribedGroup, committed: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, int | None]
) -> list[OffsetRow]:
    """Members with most partitions first, then partitions without a member; partitions in order within each."""
    rows: list[OffsetRow] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda member: -len(_partitions(member))):
        partitions = _partitions(member)
        assigned.update(partitions)
        rows += _rows(partitions, member, committed, ends)
    return rows + _rows(committed.keys() - assigned, None, committed, ends)


def _partitions(member: DescribedMember) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, numbers in member.partitions.items() for number in numbers]


def _rows(
    partitions: Iterable[TopicPartition],
    member: DescribedMember | None,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int | None],
) -> list[OffsetRow]:
    rows = []
    for partition in sorted(partitions, key=lambda partition: (java_order(partition.topic), partition.partition)):
        known = committed.get(partition)
        offset = known.offset if known is not None and known.offset >= 0 else None
        epoch = known.leader_epoch if known is not None and known.leader_epoch >= 0 else None
        end = ends[partition]
        rows.append(
            OffsetRow(
                topic=partition.topic,
                partition=partition.partition,
                leader_epoch=epoch if offset is not None else None,
                offset=offset,
                log_end_offset=end,
                lag=None if offset is None or end is None else end - offset,
                consumer_id=member.member_id if member else None,
                host=member.host if member else None,
                client_id=member.client_id if member else None,
            )
        )
    return rows


WAITING_MAX: Final = 10
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
STATES: Final = REBALANCING | {"Stable", "Empty", "Dead"}


def describe_groups(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Say what was asked for of every group. Raises CommandFailed when one of them cannot be described: then none is."""
    names = [group.group_id for group in admin.list_groups()] if options.has("all-groups") else list(options.groups)
    groups = describe(admin, names)
    verbose = options.has("verbose")
    if options.has("members"):
        documents = [_members(group, transcript, verbose=verbose) for group in groups]
    elif options.has("state"):
        documents = [_state(group, transcript, verbose=verbose) for group in groups]
    else:
        ends, committed = _offsets(admin, groups)
        documents = [_offsets_of(group, committed[group.group_id], ends, transcript, verbose=verbose) for group in groups]
        _say_who_waits(admin, committed, ends, transcript)
    transcript.add(groups=documents)


def _say_who_waits(
    admin: AdminClient,
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    ends: Mapping[TopicPartition, int | None],
    transcript: Transcript,
) -> None:
    """Say which lag is behind an open transaction, as Kafka's tool does not."""
    try:
        waiting = waiting_partitions(admin, committed, ends)
    except (ClientError, PeerError) as error:
        transcript.warn("", f"Open transactions could not be looked for: {error}")
        return
    if waiting:
        now_ms = time.time_ns() // 1_000_000
        transcript.warn("", *(f"{each.in_words(now_ms)}." for each in waiting[:WAITING_MAX]))
        if len(waiting) > WAITING_MAX:
            transcript.warn(f"And {len(waiting) - WAITING_MAX} more partitions wait; --json has them all.")
        transcript.add(waiting=[each.in_words(now_ms) for each in waiting])


def describe(admin: AdminClient, names: Sequence[str]) -> list[DescribedGroup]:
    """Groups by name. Raises CommandFailed for the first that is none, or none of consumers."""
    groups = []
    for name, answer in admin.describe_groups(names).items():
        if isinstance(answer, Failure):
            raise CommandFailed(named(answer))
        if answer.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            raise CommandFailed(f"java.lang.IllegalArgumentException: GroupId {name} is not a consumer group ({answer.protocol_type}).")
        groups.append(answer)
    return sorted(groups, key=lambda group: java_order(group.group_id))


def _offsets(admin: AdminClient, groups: Sequence[DescribedGroup]) -> tuple[Mapping[TopicPartition, int | None], dict[str, Any]]:
    """The end of every partition that some group reads or has committed (None: no leader), and what each has committed."""
    committed: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
    for name, answer in admin.committed([group.group_id for group in groups]).items():
        if isinstance(answer, Failure):
            raise CommandFailed(named(answer))
        committed[name] = answer
    wanted = {partition for group in groups for partition in group.partitions | set(committed[group.group_id])}
    leaders: dict[TopicPartition, int | None] = {}
    for topic, described in admin.describe_topics(sorted({partition.topic for partition in wanted})).items():
        if isinstance(described, Failure):
            raise CommandFailed(named(described))
        leaders.update({TopicPartition(topic, number): leader for number, leader in described.leaders.items()})
    led = sorted(partition for partition in wanted if leaders.get(partition) is not None)
    ends: dict[TopicPartition, int | None] = dict.fromkeys(wanted)
    return ends | admin.list_offsets(led, LATEST), committed


def _offsets_of(
    group: DescribedGroup,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int | None],
    transcript: Transcript,
    *,
    verbose: bool,
) -> dict[str, Any]:
    rows = offset_rows(group, committed, ends)
    if _has_something_to_show(group, len(rows), transcript):
        columns = [Column("GROUP", 15, True), Column("TOPIC", 15, True), Column("PARTITION", 10)]
        columns += [Column("LEADER-EPOCH", 15)] * verbose
        columns += [Column("CURRENT-OFFSET", 15), Column("LOG-END-OFFSET", 15), Column("LAG", 15)]
        columns += [Column("CONSUMER-ID", 15, True), Column("HOST", 15, True), Column("CLIENT-ID", 0)]
        transcript.say("", *table(columns, [_offset_texts(group.group_id, row, verbose=verbose) for row in rows]))
    return {"group": group.group_id, "state": group.state, "partitions": [row._asdict() for row in rows]}


def _offset_texts(group: str, row: OffsetRow, *, verbose: bool) -> list[object]:
    epoch = [row.leader_epoch] * verbose
    return [group, row.topic, row.partition, *epoch, row.offset, row.log_end_offset, row.lag, row.consumer_id, row.host, row.client_id]


def _members(group: DescribedGroup, transcript: Transcript, *, verbose: bool) -> dict[str, Any]:
    members = group.members
    _has_something_to_show(group, len(members), transcript)
    with_instance = any(member.instance_id for member in members)
    with_upgraded = verbose and {member.is_upgraded for member in members} >= {True, False}
    columns = [Column("GROUP", 15, True), Column("CONSUMER-ID", 15, True)]
    columns += [Column("GROUP-INSTANCE-ID", 17, True)] * with_instance
    columns += [Column("HOST", 15, True), Column("CLIENT-ID", 15, True), Column("#PARTITIONS", 15)]
    if verbose:
        columns += [Column("CURRENT-EPOCH", 15), Column("CURRENT-ASSIGNMENT", 20, True)]
        columns += [Column("TARGET-EPOCH", 15), Column("TARGET-ASSIGNMENT", 20, True)]
    columns += [Column("UPGRADED", 0)] * with_upgraded
    rows = [_member_texts(group, member, columns) for member in members]
    # Kafka ends each line behind #PARTITIONS with a blank, too.
    transcript.say("", *(line if verbose else f"{line} " for line in table(columns, rows)))
    return {"group": group.group_id, "state": group.state, "members": [_member_document(group, member) for member in members]}


def _member_texts(group: DescribedGroup, member: DescribedMember, columns: Sequence[Column]) -> list[object]:
    assigned = member.partitions
    values: dict[str, object] = {
        "GROUP": group.group_id,
        "CONSUMER-ID": member.member_id,
        "GROUP-INSTANCE-ID": member.instance_id or "",
        "HOST": member.host,
        "CLIENT-ID": member.client_id,
        "#PARTITIONS": sum(map(len, assigned.values())),
        "CURRENT-EPOCH": member.epoch,
        "CURRENT-ASSIGNMENT": assignment_text(assigned),
        "TARGET-EPOCH": group.target_epoch,
        "TARGET-ASSIGNMENT": assignment_text(member.target or {}),
        "UPGRADED": None if member.is_upgraded is None else str(member.is_upgraded).lower(),
    }
    return [values[column.title] for column in columns]


def _member_document(group: DescribedGroup, member: DescribedMember) -> dict[str, Any]:
    return {
        "consumer_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "epoch": member.epoch,
        "assignment": member.partitions,
        "target_epoch": group.target_epoch,
        "target_assignment": member.target,
        "upgraded": member.is_upgraded,
    }


def assignment_text(assignment: Mapping[str, Sequence[int]]) -> str | None:
    """`topic:0,1;other:2`, None for no partition at all."""
    parts = [f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in assignment.items() if numbers]
    return ";".join(sorted(parts, key=java_order)) or None


def _state(group: DescribedGroup, transcript: Transcript, *, verbose: bool) -> dict[str, Any]:
    coordinator = group.coordinator
    if _has_something_to_show(group, 1, transcript):
        columns = [Column("GROUP", 15, True), Column("COORDINATOR (ID)", 25, True), Column("ASSIGNMENT-STRATEGY", 20), Column("STATE", 20)]
        columns += [Column("GROUP-EPOCH", 15), Column("TARGET-ASSIGNMENT-EPOCH", 25)] * verbose
        columns += [Column("#MEMBERS", 0)]
        place = f"{coordinator.host}:{coordinator.port}  ({coordinator.broker_id})"
        epochs = [text_of(group.group_epoch), text_of(group.target_epoch)] * verbose
        row = [group.group_id, place, group.assignor or None, group.state, *epochs, len(group.members)]
        transcript.say("", *table(columns, [row]))
    return {
        "group": group.group_id,
        "type": group.kind.capitalize(),
        "state": group.state,
        "coordinator": coordinator._asdict(),
        "assignment_strategy": group.assignor or None,
        "members": len(group.members),
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.target_epoch,
    }


def _has_something_to_show(group: DescribedGroup, rows: int, transcript: Transcript) -> bool:
    """Print what a group's state means; return whether there is a table to print."""
    if group.state not in STATES:
        raise CommandFailed(f"Expected a valid consumer group state, but found '{group.state}'.")
    if group.state == "Dead":
        transcript.error(f"Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        transcript.warn("", f"Consumer group '{group.group_id}' has no active members.")
    elif group.state in REBALANCING:
        transcript.warn("", f"Warning: Consumer group '{group.group_id}' is rebalancing.")
    return group.state != "Dead" and rows > 0


GROUP_STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES: Final = ("Classic", "Consumer")
COLUMN_WIDTH: Final = 20
GROUP_WIDTH: Final = 15
GROUP_MARGIN: Final = 10


def parse_states(text: str) -> list[str]:
    """The states of `Stable, empty`, as Kafka writes them, "" for all. Raises UsageProblem."""
    return _parse(text, GROUP_STATES, f"Invalid state list '{text}'. Valid states are: {', '.join(GROUP_STATES)}")


def parse_types(text: str) -> list[str]:
    """The group types of `classic,consumer`. Raises UsageProblem."""
    return _parse(text, TYPES, f"Invalid types list '{text}'. Valid types are: {', '.join(TYPES)}")


def _parse(text: str, valid: tuple[str, ...], otherwise: str) -> list[str]:
    if not text:
        return []
    by_name = {name.lower(): name for name in valid}
    asked = [part.strip().lower() for part in text.split(",")]
    if any(name not in by_name for name in asked):
        raise UsageProblem(otherwise)
    return [by_name[name] for name in asked]


def list_groups(admin: AdminClient, options: GroupsOptions, transcript: Transcript) -> None:
    """Say which groups of consumers there are."""
    kinds = parse_types(options.one("type") or "")
    states = parse_states(options.one("state") or "")
    found = admin.list_groups(states=states, kinds=[kind.lower() for kind in kinds])
    groups = sorted(found, key=lambda group: java_order(group.group_id))
    transcript.add(groups=[{"group": group.group_id, "type": kind_of(group), "state": group.state or "Unknown"} for group in groups])
    with_type, with_state = options.has("type"), options.has("state")
    if not with_type and not with_state:
        transcript.say(*(group.group_id for group in groups))
        return
    width = max([GROUP_WIDTH, *(len(group.group_id) for group in groups)]) + GROUP_MARGIN
    columns = [Column("GROUP", width)]
    columns += [Column("TYPE", COLUMN_WIDTH)] * with_type + [Column("STATE", COLUMN_WIDTH)] * with_state
    rows = [[group.group_id, *[kind_of(group)] * with_type, *[group.state or "Unknown"] * with_state] for group in groups]
    transcript.say(*table(columns, rows))


def kind_of(group: ListedGroup) -> str:
    """The type of a group as Kafka writes it."""
    return group.kind.capitalize() or "Unknown"
