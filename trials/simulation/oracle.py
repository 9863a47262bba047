"""The invariants of a group coordinator, checked after every command of a simulation.

The oracle gets what the broker's shell gets, commands and applied effects, and inspects the coordinator between commands. It does not
depend on how the coordinator decides.
"""

from ottla.coordinator.effects import Reply
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.states import GroupState
from ottla.groups.commands import (
    Command,
    CommitResult,
    DeleteGroup,
    DeleteResult,
    GroupEffects,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResult,
    Request,
    Result,
    SyncGroup,
    SyncResult,
)
from ottla.groups.events import GroupEvent
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord
from ottla.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import parse_assignment, parse_subscribed_topics
from tests.support.kit.coordinator_shell import CoordinatorShell

PREPARING_LINE = "Preparing to rebalance"
REPLAY_DIFFERS = "the coordinator's state differs from its log"
REBALANCE_ENDS = ("join_completed", "emptied")


class InvariantBroken(AssertionError):
    """The coordinator violated an invariant."""


class Oracle:
    """Checks one simulation; raises InvariantBroken."""

    def __init__(self, shell: CoordinatorShell) -> None:
        self._shell = shell
        self._open: dict[int, Command] = {}
        """Requests without a response, by `reply_to`."""
        self._committed: dict[tuple[str, str, int], int] = {}
        """The offset acknowledged last, by group, topic and partition."""
        self._stored_at_ms: dict[tuple[str, str, int], int] = {}
        """The commit time of the last offset in the log, by group, topic and partition."""
        self._owners: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        """The owner of each partition, by group and generation."""
        self._generations: dict[str, int] = {}
        """The last generation in the log, by group."""
        self._triggered: set[str] = set()
        """Groups whose present rebalance has a published trigger."""

    def request_received(self, command: Request) -> None:
        """A request reaches the coordinator."""
        self._require(command.reply_to not in self._open, f"#{command.reply_to} was used twice")
        self._open[command.reply_to] = command

    def effects_applied(self, effects: GroupEffects) -> None:
        """Effects were appended and replayed."""
        for record in effects.records:
            if isinstance(record, GroupMetadataRecord):
                self._check_generation(record)
            elif isinstance(record, OffsetRecord) and record.value is not None:
                self._stored_at_ms[record.group_id, record.topic, record.partition] = record.value.commit_timestamp_ms
        for reply in effects.replies:
            self._check_reply(reply)
        if effects.events or effects.log_lines:
            self._check_triggers(effects)
        self._require(self._shell.coordinator.state.replayed == self._shell.stored, REPLAY_DIFFERS)
        for group in self._shell.groups.values():
            self._check_deadlines(group)

    def check_sessions(self, timer_ms: int) -> None:
        """Check at `timer_ms` that a member that sends nothing more is removed within its session timeout."""
        for group in self._shell.groups.values():
            for member in group.members.values():
                deadline_ms = member.session.at_ms
                longest_ms = max(member.session_timeout_ms, NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else 0)
                fits = deadline_ms is None or deadline_ms - timer_ms <= longest_ms
                self._require(fits, f"{group.group_id}: {member.member_id} may be silent until {deadline_ms} ms, at {timer_ms} ms")

    def offsets_expired(self, effects: GroupEffects, now_ms: int) -> None:
        """The effects of an expiry step were applied."""
        retention_ms = self._shell.coordinator.state.settings.offsets_retention_ms
        for record in effects.records:
            group = self._shell.groups.get(record.group_id)
            if isinstance(record, GroupMetadataRecord):
                left = self._shell.stored.offsets.get(record.group_id)
                self._require(group is None and not left, f"{record.group_id} expires with {left} and {group}")
                continue
            assert isinstance(record, OffsetRecord), f"a classic group wrote {record}"
            where = record.group_id, record.topic, record.partition
            age_ms = now_ms - self._stored_at_ms[where]
            self._require(age_ms >= retention_ms, f"{where} is {age_ms} ms old and expires")
            self._committed.pop(where, None)
            if group is not None and group.members:
                self._require(group.state is GroupState.STABLE, f"{where} expires while the group is {group.state}")
                for member in group.members.values():
                    # A restarted static member may subscribe to other topics than those it is assigned.
                    topics = set(parse_subscribed_topics(member.metadata(group.protocol))) & set(parse_assignment(member.assignment))
                    self._require(record.topic not in topics, f"{where} expires, and {member.member_id} consumes it")

    def coordinator_resigned(self, effects: GroupEffects) -> None:
        """The effects of a coordinator that has resigned: only replies."""
        for reply in effects.replies:
            self._check_reply(reply)

    def coordinator_restarted(self) -> None:
        """A new coordinator has replayed the log; requests to the old one get no response."""
        self._open.clear()
        self._triggered.clear()
        read = self._shell.coordinator.state.replayed
        for (group_id, topic, partition), offset in self._committed.items():
            value = read.committed(group_id, topic, partition)
            known = None if value is None else value.offset
            self._require(known == offset, f"{group_id} {topic}/{partition}: {offset} was acknowledged, {known} is left")
        self._require(read == self._shell.stored, REPLAY_DIFFERS)

    def open_requests(self) -> list[Command]:
        """Requests without a response so far."""
        return list(self._open.values())

    def _check_generation(self, record: GroupMetadataRecord) -> None:
        last = self._generations.get(record.group_id)
        if record.value is None:
            self._generations.pop(record.group_id, None)
            self._owners = {key: owners for key, owners in self._owners.items() if key[0] != record.group_id}
            return
        generation = record.value.generation
        # A static member that returns changes its id within a generation.
        may_repeat = any(member.instance_id is not None for member in record.value.members)
        rises = last is None or generation > last or (generation == last and may_repeat)
        self._require(rises, f"{record.group_id}: generation {generation} is written after {last}")
        self._generations[record.group_id] = generation

    def _check_reply(self, reply: Reply[Result]) -> None:
        command = self._open.pop(reply.to, None)
        self._require(command is not None, f"#{reply.to} is answered without a request")
        match command, reply.result:
            case SyncGroup(), SyncResult(error=ErrorCode.NONE, assignment=assignment):
                self._check_owners(command, assignment)
            case OffsetCommit(), CommitResult(errors=errors):
                for each, error in zip(command.offsets, errors, strict=True):
                    if error is ErrorCode.NONE:
                        self._committed[command.group_id, each.topic, each.partition] = each.offset
                        self._check_committed(command.group_id, each.topic, each.partition)
            case DeleteGroup(), DeleteResult(error=ErrorCode.NONE):
                self._committed = {key: at for key, at in self._committed.items() if key[0] != command.group_id}
            case OffsetFetch(), OffsetFetchResult(error=ErrorCode.NONE, topics=topics):
                for topic, partitions in topics:
                    for fetched in partitions:
                        expected = self._committed.get((command.group_id, topic, fetched.partition), -1)
                        text = f"{topic}/{fetched.partition}: {expected} is committed, {fetched.offset} is fetched"
                        self._require(fetched.offset == expected, text)
            case _:
                pass

    def _check_owners(self, command: SyncGroup, assignment: bytes) -> None:
        # A static member is identified by its instance id.
        member = self._shell.groups[command.group_id].members[command.member_id]
        who = member.instance_id or command.member_id
        owners = self._owners.setdefault((command.group_id, command.generation), {})
        for topic, partitions in parse_assignment(assignment).items():
            for partition in partitions:
                owner = owners.setdefault((topic, partition), who)
                text = f"{topic}/{partition} belongs to {owner} and {who} in generation {command.generation}"
                self._require(owner == who, text)

    def _check_committed(self, group_id: str, topic: str, partition: int) -> None:
        value = self._shell.stored.committed(group_id, topic, partition)
        offset = self._committed[group_id, topic, partition]
        stored = value is not None and value.offset == offset
        self._require(stored, f"{group_id} {topic}/{partition}: {offset} is acknowledged and not in the log")

    def _check_triggers(self, effects: GroupEffects) -> None:
        started = [event for event in effects.events if event.kind == "trigger" and not event.coalesced]
        lines = [line for line in effects.log_lines if line.startswith(PREPARING_LINE)]
        self._require(len(started) == len(lines), f"{len(lines)} rebalances started, {len(started)} triggers were published")
        for event in effects.events:
            self._check_event(event)

    def _check_event(self, event: GroupEvent) -> None:
        if event.kind == "trigger":
            known = event.group in self._triggered
            self._require(known or not event.coalesced, f"{event.group}: {event.trigger} joins a rebalance that has not started")
            self._triggered.add(event.group)
        elif event.kind in REBALANCE_ENDS:
            has_trigger = event.group in self._triggered
            self._require(has_trigger, f"{event.group}: generation {event.generation} has no trigger")
            self._triggered.discard(event.group)

    def _check_deadlines(self, group: ClassicGroup) -> None:
        joins, syncs = group.join_timer.at_ms is not None, group.sync_timer.at_ms is not None
        for member in group.members.values():
            in_join, in_sync = member.awaiting_join is not None, member.awaiting_sync is not None
            bounded = (joins or not in_join) and (syncs or not in_sync) and (in_join or in_sync or member.session.at_ms is not None)
            self._require(bounded, f"{group.group_id}: {member.member_id} has no timer")

    def _require(self, holds: bool, text: str) -> None:
        if not holds:
            raise InvariantBroken(text)
