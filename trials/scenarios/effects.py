"""The effects of one command as the lines of a scenario file: one line for each effect that a client, an operator or the log sees."""

from collections.abc import Iterable, Mapping, Sequence

from ottla.groups.commands import (
    CommitResult,
    ConsumerGroupDescribeResult,
    ConsumerGroupHeartbeatResult,
    DeleteResult,
    DescribeResult,
    GroupEffects,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    Result,
    SyncResult,
)
from ottla.groups.consumer.member import ReconciliationState
from ottla.groups.events import GroupEvent
from ottla.groups.log.records import ConsumerGroupRecord, GroupMetadataRecord, GroupRecord
from ottla.protocol.coordinator_records import (
    AssignedTopicPartitions,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.consumer_protocol import parse_assignment, parse_subscribed_topics

NONE_LINE = "(nothing)"
API_NAMES: Mapping[type, str] = {
    JoinResult: "JoinGroup",
    SyncResult: "SyncGroup",
    HeartbeatResult: "Heartbeat",
    LeaveResult: "LeaveGroup",
    CommitResult: "OffsetCommit",
    OffsetFetchResult: "OffsetFetch",
    OffsetDeleteResult: "OffsetDelete",
    DescribeResult: "DescribeGroups",
    ListResult: "ListGroups",
    DeleteResult: "DeleteGroups",
    ConsumerGroupHeartbeatResult: "ConsumerGroupHeartbeat",
    ConsumerGroupDescribeResult: "ConsumerGroupDescribe",
}


def render_effects(effects: GroupEffects) -> list[str]:
    """The lines of one command's effects, in the order in which the shell carries them out."""
    lines = [f"log    {line}" for line in effects.log_lines]
    lines += [f"record {_record(record)}" for record in effects.records]
    lines += [f"reply  #{reply.to} {render_result(reply.result)}" for reply in effects.replies]
    lines += [f"event  {_event(event)}" for event in effects.events]
    latest = {timer.key: timer.at_ms for timer in effects.timers}
    lines += [f"timer  {key} at {at_ms}" for key, at_ms in latest.items()]
    return lines or [NONE_LINE]


def render_result(result: Result) -> str:
    """One response, e.g. `JoinGroup NONE gen=1 member=m1 leader=m1 protocol=range members=[m1 flights]`."""
    name = API_NAMES[type(result)]
    match result:
        case JoinResult():
            return f"{name} {_join(result)}"
        case SyncResult(error=ErrorCode.NONE):
            return f"{name} NONE protocol={result.protocol_name} assignment={_assignment(result.assignment)}"
        case LeaveResult(error=ErrorCode.NONE):
            lines = [f"{_identity(line.member_id, line.instance_id)}={line.error.name}" for line in result.members]
            return f"{name} NONE {' '.join(lines)}"
        case CommitResult(errors=errors):
            return f"{name} {_names(errors)}"
        case OffsetFetchResult(error=ErrorCode.NONE):
            return f"{name} NONE {_fetched(result)}".rstrip()
        case OffsetDeleteResult(error=ErrorCode.NONE, errors=errors):
            return f"{name} NONE {_names(errors)}".rstrip()
        case DescribeResult() if result.state:
            return f"{name} {_described(result)}"
        case ListResult(error=ErrorCode.NONE):
            groups = [f"{each.group_id}={each.state}({each.protocol_type})" for each in result.groups]
            return f"{name} NONE {' '.join(groups)}".rstrip()
        case ConsumerGroupHeartbeatResult(error=ErrorCode.NONE):
            assigned = "" if result.assignment is None else f" assignment={_by_id(result.assignment)}"
            return f"{name} NONE member={result.member_id} epoch={result.member_epoch}{assigned}"
        case ConsumerGroupDescribeResult(error=ErrorCode.NONE):
            return f"{name} NONE {_consumer_group(result)}"
        case ConsumerGroupHeartbeatResult() | ConsumerGroupDescribeResult():
            return f"{name} {result.error.name}" + ("" if result.message is None else f' "{result.message}"')
        case _:
            return f"{name} {result.error.name}"


def _consumer_group(result: ConsumerGroupDescribeResult) -> str:
    members = [
        f"{_identity(each.member_id, each.instance_id)}{' classic' if each.is_classic else ''} epoch={each.member_epoch} "
        f"{','.join(each.topics) or '-'}{f' regex={each.regex}' if each.regex else ''} "
        f"has={_by_id(each.assignment)} target={_by_id(each.target)}"
        for each in result.members
    ]
    return (
        f"{result.state} epoch={result.epoch} assigned={result.assignment_epoch} assignor={result.assignor} members=[{', '.join(members)}]"
    )


def _by_id(partitions: Mapping[bytes, Iterable[int]]) -> str:
    """Topics are named as their ids are (`commands.topic_id`)."""
    return ",".join(f"{key.rstrip(bytes(1)).decode()}/{'+'.join(map(str, sorted(numbers)))}" for key, numbers in partitions.items()) or "-"


def _with_epochs(topics: Iterable[AssignedTopicPartitions]) -> str:
    return (
        ",".join(
            f"{topic.topic_id.rstrip(bytes(1)).decode()}/"
            + "+".join(f"{number}@{epoch}" for number, epoch in zip(topic.partitions, topic.assignment_epochs or (), strict=True))
            for topic in topics
        )
        or "-"
    )


def _consumer_record(record: ConsumerGroupRecord) -> str:
    """One of types 3 to 8 and 16, by its number."""
    name = f" {record.name}" if record.name else ""
    start, value = f"{record.record_type} {record.group_id}{name}", record.value
    match value:
        case None:
            return f"{start} is deleted"
        case ConsumerGroupMetadataValue():
            return f"{start} epoch={value.epoch} hash={'set' if value.metadata_hash else 0}"
        case ConsumerGroupMemberMetadataValue():
            options = (("instance", value.instance_id), ("regex", value.subscribed_topic_regex), ("assignor", value.server_assignor))
            shown = "".join(f" {key}={text}" for key, text in options if text)
            if value.classic_member_metadata is not None:
                shown += f" classic={'/'.join(protocol.name for protocol in value.classic_member_metadata.supported_protocols)}"
            return f"{start} topics={','.join(value.subscribed_topic_names) or '-'}{shown} rebalance={value.rebalance_timeout_ms}"
        case TargetAssignmentMetadataValue():
            return f"{start} epoch={value.assignment_epoch} at={value.assignment_timestamp_ms}"
        case TargetAssignmentMemberValue():
            return f"{start} {_by_id({topic.topic_id: topic.partitions for topic in value.topic_partitions})}"
        case ConsumerGroupCurrentMemberAssignmentValue():
            state = ReconciliationState(value.state).name
            has, revokes = _with_epochs(value.assigned_partitions), _with_epochs(value.partitions_pending_revocation)
            return f"{start} {state} epoch={value.member_epoch} previous={value.previous_member_epoch} has={has} revokes={revokes}"
    return f"{start} topics={','.join(value.topics) or '-'} version={value.version} at={value.timestamp_ms}"


def _join(result: JoinResult) -> str:
    if result.error is not ErrorCode.NONE:
        return f"{result.error.name} member={result.member_id or '-'}"
    members = [f"{_identity(each.member_id, each.instance_id)} {_topics(each.metadata)}" for each in result.members]
    return (
        f"NONE gen={result.generation} member={result.member_id} leader={result.leader} "
        f"protocol={result.protocol_name} members=[{', '.join(members)}]"
        f"{' skip-assignment' if result.skip_assignment else ''}"
    )


def _fetched(result: OffsetFetchResult) -> str:
    parts = []
    for topic, partitions in result.topics:
        for each in partitions:
            metadata = f" ({each.metadata})" if each.metadata else ""
            error = "" if each.error is ErrorCode.NONE else f" {each.error.name}"
            parts.append(f"{topic}/{each.partition}={each.offset}{metadata}{error}")
    return " ".join(parts)


def _described(result: DescribeResult) -> str:
    members = [
        f"{_identity(each.member_id, each.instance_id)} {_topics(each.metadata)} {_assignment(each.assignment)}" for each in result.members
    ]
    return f"{result.error.name} {result.state} protocol={result.protocol_data or '-'} members=[{', '.join(members)}]"


def _record(record: GroupRecord) -> str:
    if isinstance(record, GroupMetadataRecord):
        if record.value is None:
            return f"group {record.group_id} is deleted"
        value = record.value
        members = [f"{_identity(each.member_id, each.instance_id)} {_assignment(each.assignment)}" for each in value.members]
        return (
            f"group {record.group_id} gen={value.generation} type={value.protocol_type or '-'} "
            f"protocol={value.protocol or '-'} leader={value.leader or '-'} members=[{', '.join(members)}]"
        )
    if isinstance(record, ConsumerGroupRecord):
        return _consumer_record(record)
    where = f"offset {record.group_id} {record.topic}/{record.partition}"
    if record.value is None:
        return f"{where} is deleted"
    expires = record.value.expire_timestamp_ms
    return f"{where} = {record.value.offset}{'' if expires is None else f' until {expires}'}"


def _event(event: GroupEvent) -> str:
    """Every field that is set: kind, cause, states and generation, then the member, the evidence and the reason."""
    parts = [event.kind, *([event.trigger] if event.trigger else []), *(["coalesced"] if event.coalesced else [])]
    states = event.state_from if event.state_from == event.state_to else f"{event.state_from}->{event.state_to}"
    parts += [states, f"gen={event.generation}"]
    if event.member_id is not None:
        parts.append(f"member={_identity(event.member_id, event.instance_id)}")
    if event.members:
        parts.append(f"members=[{', '.join(f'{each.member_id} {_partitions(each.assignment)}' for each in event.members)}]")
    parts += [f"{key}={value}" for key, value in event.evidence.items()]
    if event.reason is not None:
        parts.append(f'"{event.reason}"')
    return " ".join(parts)


def _identity(member_id: str, instance_id: str | None) -> str:
    return (member_id or "-") + (f"({instance_id})" if instance_id is not None else "")


def _names(errors: Sequence[ErrorCode]) -> str:
    return " ".join(error.name for error in errors)


def _topics(metadata: bytes) -> str:
    try:
        return ",".join(parse_subscribed_topics(metadata)) if metadata else "-"
    except PeerError:
        return repr(metadata)


def _assignment(assignment: bytes) -> str:
    try:
        return _partitions(parse_assignment(assignment))
    except PeerError:
        return repr(assignment)


def _partitions(partitions: Mapping[str, Sequence[int]]) -> str:
    return ",".join(f"{topic}/{'+'.join(map(str, numbers))}" for topic, numbers in partitions.items()) or "-"
