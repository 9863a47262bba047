"""What must be true of a group coordinator whatever happens: checked after every step of a simulation.

The oracle sees what the broker's shell sees, commands and effects that came true, and looks at the coordinator between steps. It
knows nothing of how the coordinator decides.
"""

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic_group import ClassicGroup
from ottla.core.groups.commands import Command, DeleteGroup, OffsetCommit, OffsetFetch, Request, SyncGroup
from ottla.core.groups.effects import (
    CommitResult,
    DeleteResult,
    Effects,
    OffsetFetchResult,
    Reply,
    SyncResult,
)
from ottla.core.groups.records import GroupMetadataRecord
from ottla.core.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.core.groups.states import GroupState
from ottla.core.groups.subscription import parse_assignment, parse_subscribed_topics
from ottla.core.model import GroupEvent
from ottla.testing.sim_shell import CoordinatorShell

PREPARING_LINE = "Preparing to rebalance"
REPLAY_DIFFERS = "what the coordinator knows is not what its log says"
ROUND_ENDS = ("join_completed", "emptied")


class InvariantBroken(AssertionError):
    """The coordinator did what it must never do."""


class Oracle:
    """Judges one simulation; raises InvariantBroken."""

    def __init__(self, shell: CoordinatorShell) -> None:
        self._shell = shell
        self._open: dict[int, Command] = {}
        """Requests without an answer, by `reply_to`."""
        self._committed: dict[tuple[str, str, int], int] = {}
        """What was acknowledged last, by group, topic and partition."""
        self._stored_at_ms: dict[tuple[str, str, int], int] = {}
        """When what the log says last was committed, by group, topic and partition."""
        self._owners: dict[tuple[str, int], dict[tuple[str, int], str]] = {}
        """Who owns a partition, by group and generation."""
        self._generations: dict[str, int] = {}
        """The last generation in the log, by group."""
        self._triggered: set[str] = set()
        """Groups whose current round has been told why it began."""

    def asked(self, command: Request) -> None:
        """A request reaches the coordinator."""
        self._demand(command.reply_to not in self._open, f"#{command.reply_to} was used twice")
        self._open[command.reply_to] = command

    def stepped(self, effects: Effects) -> None:
        """A step came true."""
        for record in effects.records:
            if isinstance(record, GroupMetadataRecord):
                self._check_generation(record)
            elif record.value is not None:
                self._stored_at_ms[record.group_id, record.topic, record.partition] = record.value.commit_timestamp_ms
        for reply in effects.replies:
            self._check_reply(reply)
        if effects.events or effects.log_lines:
            self._check_triggers(effects)
        self._demand(self._shell.coordinator.registry.durable == self._shell.stored, REPLAY_DIFFERS)
        for group in self._shell.coordinator.registry.groups.values():
            self._check_deadlines(group)

    def timed(self, timer_ms: int) -> None:
        """A step was replayed at this time: no member that falls silent now stays longer than its session."""
        for group in self._shell.coordinator.registry.groups.values():
            for member in group.members.values():
                deadline_ms = member.session.at_ms
                longest_ms = max(member.session_timeout_ms, NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else 0)
                fits = deadline_ms is None or deadline_ms - timer_ms <= longest_ms
                self._demand(fits, f"{group.group_id}: {member.member_id} may be silent until {deadline_ms} ms, at {timer_ms} ms")

    def expired(self, effects: Effects, now_ms: int) -> None:
        """A step in which what is too old goes came true."""
        retention_ms = self._shell.coordinator.registry.settings.offsets_retention_ms
        for record in effects.records:
            group = self._shell.coordinator.registry.groups.get(record.group_id)
            if isinstance(record, GroupMetadataRecord):
                left = self._shell.stored.offsets.get(record.group_id)
                self._demand(group is None and not left, f"{record.group_id} expires with {left} and {group}")
                continue
            where = record.group_id, record.topic, record.partition
            age_ms = now_ms - self._stored_at_ms[where]
            self._demand(age_ms >= retention_ms, f"{where} is {age_ms} ms old and expires")
            self._committed.pop(where, None)
            if group is not None and group.members:
                self._demand(group.state is GroupState.STABLE, f"{where} expires while the group is {group.state}")
                for member in group.members.values():
                    # A static member may come back wanting more, or less, than the plan that its former self left it.
                    topics = set(parse_subscribed_topics(member.metadata(group.protocol))) & set(parse_assignment(member.assignment))
                    self._demand(record.topic not in topics, f"{where} expires, and {member.member_id} consumes it")

    def resigned(self, effects: Effects) -> None:
        """A step of a coordinator that serves no more: it answers, and has forgotten everything."""
        for reply in effects.replies:
            self._check_reply(reply)

    def restarted(self) -> None:
        """A fresh coordinator read the log; whoever waited for the old one waits in vain."""
        self._open.clear()
        self._triggered.clear()
        read = self._shell.coordinator.registry.durable
        for (group_id, topic, partition), offset in self._committed.items():
            value = read.committed(group_id, topic, partition)
            known = None if value is None else value.offset
            self._demand(known == offset, f"{group_id} {topic}/{partition}: {offset} was acknowledged, {known} is left")
        self._demand(read == self._shell.stored, REPLAY_DIFFERS)

    def unanswered(self) -> list[Command]:
        """Requests that nobody has answered so far."""
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
        self._demand(rises, f"{record.group_id}: generation {generation} is written after {last}")
        self._generations[record.group_id] = generation

    def _check_reply(self, reply: Reply) -> None:
        command = self._open.pop(reply.to, None)
        self._demand(command is not None, f"#{reply.to} is answered, and nobody asked")
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
                        text = f"{topic}/{fetched.partition}: {expected} is committed, {fetched.offset} is told"
                        self._demand(fetched.offset == expected, text)
            case _:
                pass

    def _check_owners(self, command: SyncGroup, assignment: bytes) -> None:
        # A static member is whoever holds its instance id, under whatever member id.
        member = self._shell.coordinator.registry.groups[command.group_id].members[command.member_id]
        who = member.instance_id or command.member_id
        owners = self._owners.setdefault((command.group_id, command.generation), {})
        for topic, partitions in parse_assignment(assignment).items():
            for partition in partitions:
                owner = owners.setdefault((topic, partition), who)
                text = f"{topic}/{partition} belongs to {owner} and {who} in generation {command.generation}"
                self._demand(owner == who, text)

    def _check_committed(self, group_id: str, topic: str, partition: int) -> None:
        value = self._shell.stored.committed(group_id, topic, partition)
        offset = self._committed[group_id, topic, partition]
        stored = value is not None and value.offset == offset
        self._demand(stored, f"{group_id} {topic}/{partition}: {offset} is acknowledged and not in the log")

    def _check_triggers(self, effects: Effects) -> None:
        started = [event for event in effects.events if event.kind == "trigger" and not event.coalesced]
        lines = [line for line in effects.log_lines if line.startswith(PREPARING_LINE)]
        self._demand(len(started) == len(lines), f"{len(lines)} rounds began, {len(started)} triggers were told")
        for event in effects.events:
            self._check_event(event)

    def _check_event(self, event: GroupEvent) -> None:
        if event.kind == "trigger":
            known = event.group in self._triggered
            self._demand(known or not event.coalesced, f"{event.group}: {event.trigger} joins a round that nobody began")
            self._triggered.add(event.group)
        elif event.kind in ROUND_ENDS:
            told = event.group in self._triggered
            self._demand(told, f"{event.group}: generation {event.generation} was formed, and nobody knows why")
            self._triggered.discard(event.group)

    def _check_deadlines(self, group: ClassicGroup) -> None:
        joins, syncs = group.join_timer.at_ms is not None, group.sync_timer.at_ms is not None
        for member in group.members.values():
            waits_in_join, waits_in_sync = member.awaiting_join is not None, member.awaiting_sync is not None
            bounded = (
                (joins or not waits_in_join)
                and (syncs or not waits_in_sync)
                and (waits_in_join or waits_in_sync or member.session.at_ms is not None)
            )
            self._demand(bounded, f"{group.group_id}: {member.member_id} may stay for ever")

    def _demand(self, holds: bool, text: str) -> None:
        if not holds:
            raise InvariantBroken(text)
