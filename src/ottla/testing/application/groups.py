"""A consumer group of the application under test: wait for it, read it, count its rebalances, remove its members.

Nothing here is a member of the group or sends requests about it. A group is read in the brokers' loop, as its coordinator has it now, with
the lag: all of it is of one moment. What fails says in words what the group did: each rebalance with its triggers, clients by name.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.broker.composition import Components
from ottla.broker.partitions.partitions import NotOpen
from ottla.coordinator.loop import CoordinatorLoop
from ottla.groups.classic.leave import ADMIN_REASON
from ottla.groups.classic.states import GroupState
from ottla.groups.commands import Command, EvictMember, ExpireMember
from ottla.groups.consumer.group import CONSUMER_STATES
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.events import EventMember, GroupEvent
from ottla.groups.snapshots import GroupSnapshot, MemberSnapshot
from ottla.history.group_history import Rebalance, histories_of_events
from ottla.history.story.sentences import advice_text, counted, duration, sentence_of, trigger_text
from ottla.protocol.model import TopicPartition
from ottla.testing.waiting import HIDE_FAILURES, wait_until, wait_until_in_threads
from ottla.text import did_you_mean

__tracebackhide__ = HIDE_FAILURES

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""How long a wait may take; it ends as soon as its condition holds."""
SLOW_MS: Final = 1_000
"""A member that took longer to give up partitions is named."""


class GroupNow(NamedTuple):
    """`members` are those that have joined. `lag`: records after the committed offsets, of all partitions that have one, of all that a
    member owns or has owned, and of all topics that members subscribe to.

    Where nothing is committed, all records of the partition count. None: there is no such partition, or a log was not opened yet since
    the start, which it is soon.
    """

    state: str
    members: tuple[MemberSnapshot, ...]
    committed: Mapping[TopicPartition, int]
    lag: int | None


NO_GROUP = GroupNow("Dead", (), {}, None)


def group_now(components: Components, group_id: str, owned: Set[TopicPartition]) -> GroupNow:
    """The group, whose members have `owned` these partitions before; NO_GROUP where no coordinator has it."""
    loop = coordinator_of(components, group_id)
    if loop is None:
        return NO_GROUP
    (group,) = [each for each in loop.coordinator.snapshot().groups if each.group_id == group_id]
    committed = {
        TopicPartition(topic, number): value.offset for topic, offsets in group.offsets.items() for number, value in offsets.items()
    }
    return GroupNow(group.state, group.members, committed, _lag(components, group, committed, owned))


def coordinator_of(components: Components, group_id: str) -> CoordinatorLoop[GroupCoordinator] | None:
    """The coordinator that has the group."""
    loops = [loop for broker in components.coordinators.by_broker.values() for loop in broker.all()]
    return next((loop for loop in loops if group_id in loop.coordinator.state.groups), None)


def _lag(components: Components, group: GroupSnapshot, committed: Mapping[TopicPartition, int], owned: Set[TopicPartition]) -> int | None:
    partitions = owned | committed.keys()
    for member in group.members:  # those of a group that was loaded after a restart, which has no events of them
        partitions |= {TopicPartition(topic, number) for topic, numbers in member.assigned.items() for number in numbers}
    for name in group.subscribed_topics or ():
        topic = components.cluster_metadata.topics.get(name)
        partitions |= {TopicPartition(name, number) for number in range(len(topic.leaders) if topic else 0)}
    try:
        return sum(_behind(components, partition, committed.get(partition)) for partition in partitions) if partitions else None
    except NotOpen:
        return None


def _behind(components: Components, partition: TopicPartition, committed: int | None) -> int:
    found = components.partitions.by_name(*partition)
    if found is None:  # its topic was deleted
        return 0
    start, end = found.log.log_start_offset, found.log.log_end_offset
    return max(0, end - (start if committed is None else max(start, committed)))


class Names:
    """Names of members: the group.instance.id, or else the client id, with the member id where several members share a client id."""

    def __init__(self, member_lists: Iterable[Sequence[EventMember]]) -> None:
        self._shared: set[str] = set()
        for members in member_lists:
            clients = [member.client_id for member in members if member.instance_id is None]
            self._shared.update(client for client in clients if clients.count(client) > 1)

    def name(self, instance_id: str | None, client_id: str | None, member_id: str | None) -> str:
        """The name of one member."""
        if instance_id is not None:
            return instance_id
        if client_id is None or client_id in self._shared:
            return member_id or "a member"
        return client_id

    def of_members(self, members: Iterable[EventMember]) -> str:
        """The names of several, sorted."""
        return ", ".join(sorted(self.name(member.instance_id, member.client_id, member.member_id) for member in members))


def rebalances_in_words(rebalances: Sequence[Rebalance]) -> str:
    """The rebalances of one group, a paragraph of lines, with the advice of `ottla diagnose` for those that were not planned.

    `Its events show no rebalance.` where there is none.
    """
    if not rebalances:
        return "Its events show no rebalance."
    names = Names([tuple(each.after.members.values()) for each in rebalances if each.after is not None])
    lines = [f"  {number}. {_in_words(rebalance, names)}" for number, rebalance in enumerate(rebalances, 1)]
    unplanned = [rebalance.verdict for rebalance in rebalances if rebalance.verdict.planned is False]
    advice = dict.fromkeys(advice_text(each) for verdict in unplanned for each in verdict.advice)
    return "\n".join([f"Its {counted(len(rebalances), 'rebalance')}:", *lines, *advice])


def _in_words(rebalance: Rebalance, names: Names) -> str:
    triggers = [
        trigger_text(trigger, names.name(trigger.instance_id, trigger.client_id, trigger.member_id)) for trigger in rebalance.triggers
    ]
    verdict = rebalance.verdict
    planned = {True: "planned", False: f"unplanned, {verdict.cause.value}", None: "planned or not"}[verdict.planned]
    # What was not planned has the cause of `ottla diagnose`: the trigger may be no more than that a member left.
    said = "" if verdict.planned is False else "; ".join(dict.fromkeys(triggers))
    head = f"{said or sentence_of(verdict).removesuffix('.')} ({planned})"
    members = () if rebalance.after is None else tuple(rebalance.after.members.values())
    match rebalance.outcome:
        case "completed":
            number = f"{'epoch' if rebalance.is_consumer_type else 'generation'} {rebalance.generation}"
            slowest = verdict.slowest
            waits = slowest is not None and (slowest.revocation_ms or 0) >= SLOW_MS
            slow = (
                f"; {slowest.name} gave up its partitions after {duration(slowest.revocation_ms or 0)}"
                if slowest is not None and waits
                else ""
            )
            return f"{head}: {number} with {names.of_members(members)}{slow}"
        case "emptied":
            return f"{head}: no member is left"
        case "superseded":
            return f"{head}: the next rebalance began before the assignment was stored"
        case "interrupted":
            return f"{head}: interrupted, the coordinator was loaded again or the group deleted"
        case _:
            joined = f", {names.of_members(members)} joined" if members else ""
            return f"{head}: not ended{joined}"


class Expectation:
    """Rebalances that begin after this object was made: so many, and so many of them not planned; None: any number.

    `rebalances_now` gives all of the group's until now, `group_in_words` says how the group came to be as it is.
    """

    def __init__(
        self,
        group: str,
        count: int | None,
        unplanned: int | None,
        *,
        rebalances_now: Callable[[], Sequence[Rebalance]],
        group_in_words: Callable[[], str],
    ) -> None:
        self._count = count
        self._unplanned = unplanned
        self._rebalances_now = rebalances_now
        self._group_in_words = group_in_words
        self._before = len(rebalances_now())
        wanted = [counted(count, "rebalance")] if count is not None else []
        wanted += [f"{unplanned} unplanned"] if unplanned is not None else []
        self._text = f"expected {' and '.join(wanted)} of group {group}"

    def has_come(self) -> bool:
        """Whether at least as many have begun as are expected, and the last one has ended."""
        inside = self._inside()
        is_open = bool(inside) and inside[-1].outcome == "open"
        return len(inside) >= (self._count or 0) and _unplanned(inside) >= (self._unplanned or 0) and not is_open

    def in_words(self) -> str:
        """What is expected and what came, with the group's rebalances."""
        inside = self._inside()
        return f"{self._text}. {len(inside)} began, {_unplanned(inside)} of them unplanned. {self._group_in_words()}"

    def check(self) -> None:
        """Raise AssertionError unless exactly as many have begun as are expected."""
        inside = self._inside()
        if self._count not in (None, len(inside)) or self._unplanned not in (None, _unplanned(inside)):
            raise AssertionError(self.in_words())

    def _inside(self) -> Sequence[Rebalance]:
        return self._rebalances_now()[self._before :]


def _unplanned(rebalances: Sequence[Rebalance]) -> int:
    return sum(rebalance.verdict.planned is False for rebalance in rebalances)


class RunInLoop(Protocol):
    """Calls a function with the brokers' components in their loop; returns what it returns."""

    def __call__(self, work: Callable[[Components], T]) -> T: ...


class Group:
    """One consumer group, which need not exist yet. Made by `ottla_broker.group(name)`."""

    def __init__(
        self,
        name: str,
        run_in_loop: RunInLoop,
        *,
        read_events: Callable[[str], tuple[GroupEvent, ...]],
        owned_by: Callable[[str], Set[TopicPartition]],
    ) -> None:
        self.name = name
        self._run_in_loop = run_in_loop
        self._read_events = read_events
        self._owned_by = owned_by

    def __repr__(self) -> str:
        return f"<Group {self.name!r}>"

    def wait(self, *, state: str | None = None, members: int | None = None, lag: int | None = None, timeout: float = TIMEOUT_S) -> None:
        """Wait until all of these hold: the state ("Stable", "Empty", ...), so many members, and a lag of at most so many records.

        The lag is that of all partitions with a committed offset, of all that a member owns or has owned since this broker object was
        made, and of the topics that members subscribe to; where nothing is committed, all records count. Raises AssertionError after
        `timeout` seconds, with the group as it is then and its rebalances in words; ValueError without a condition, and for a state
        that groups do not have.
        """
        _check_conditions(state, members, lag)
        wait_until(partial(self._is, state, members, lag), partial(self._wanted, state, members, lag), seconds=timeout)

    async def wait_async(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        lag: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        """`wait` for coroutines: the event loop runs meanwhile."""
        _check_conditions(state, members, lag)
        await wait_until_in_threads(partial(self._is, state, members, lag), partial(self._wanted, state, members, lag), seconds=timeout)

    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets by (topic, partition); empty where there is no such group."""
        return dict(self._now().committed)

    def assignment(self) -> dict[str, list[TopicPartition]]:
        """The partitions of each member, by its group.instance.id, or else its client id (where members share one: its member id).

        As the leader assigned them last: during a rebalance those of before, and none for a member that has just joined.
        """
        members = self._now().members
        shared = Counter(member.client_id for member in members if member.instance_id is None)
        return {
            member.instance_id or (member.client_id if shared[member.client_id] == 1 else member.member_id): sorted(
                TopicPartition(topic, number) for topic, numbers in member.assigned.items() for number in numbers
            )
            for member in members
        }

    def events(self) -> tuple[GroupEvent, ...]:
        """The group's events since the broker object was made, oldest first (docs/rebalances.md)."""
        return self._read_events(self.name)

    @contextmanager
    def expect(self, *, rebalances: int | None = None, unplanned: int | None = None, timeout: float = TIMEOUT_S) -> Iterator[None]:
        """Count the rebalances that begin inside the `with` block, all of them or those that were not planned (a member was lost).

        At the end of the block it waits until as many have begun as are expected, and the last one has ended. Raises AssertionError when
        there are more, or fewer after `timeout` seconds, with the group's rebalances in words; ValueError if nothing is expected.
        """
        expected = self._expectation(rebalances, unplanned)
        yield
        wait_until(expected.has_come, expected.in_words, seconds=timeout)
        expected.check()

    @asynccontextmanager
    async def expect_async(
        self,
        *,
        rebalances: int | None = None,
        unplanned: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> AsyncIterator[None]:
        """`expect` for coroutines, with `async with`: the event loop runs while it waits."""
        expected = await asyncio.to_thread(self._expectation, rebalances, unplanned)
        yield
        await wait_until_in_threads(expected.has_come, expected.in_words, seconds=timeout)
        await asyncio.to_thread(expected.check)

    def evict(self, member: str, *, reason: str = ADMIN_REASON) -> None:
        """Remove a member, as an administrator does: cause ADMIN_REMOVE. Its client learns it from its next request, and joins again.

        `member` is a client id, group.instance.id or member id. Where it was the only one, the group is Empty until it has joined again,
        and begins a new generation then. With the reason "consumer poll timeout has expired.", which Java consumers send, the cause is
        POLL_TIMEOUT. Raises AssertionError when no member, or more than one, has the name.
        """
        self._remove(member, lambda found: EvictMember(group_id=self.name, member_id=found.member_id, reason=reason))

    def expire(self, member: str, *, timeout: float = TIMEOUT_S) -> None:
        """End a member's session at once, as if its client had been silent for session.timeout.ms: cause EXPIRE_HEARTBEAT.

        `member` is a client id, group.instance.id or member id. A member that waits in JoinGroup or SyncGroup has no session that could
        end, as in Kafka: it is ended when the member's request is answered. Raises AssertionError when no member, or more than one, has
        the name, and when the request is not answered after `timeout` seconds.
        """
        wait_until(partial(self._expire, member), partial(self._waits, member), seconds=timeout)

    async def expire_async(self, member: str, *, timeout: float = TIMEOUT_S) -> None:
        """`expire` for coroutines: the event loop runs meanwhile."""
        await wait_until_in_threads(partial(self._expire, member), partial(self._waits, member), seconds=timeout)

    def _expire(self, name: str) -> bool:
        """End the member's session, unless it waits in JoinGroup or SyncGroup."""

        def command(found: MemberSnapshot) -> Command | None:
            if found.parked_in is not None and not found.is_new:  # as in Kafka: a new member's session ends also then
                return None
            return ExpireMember(group_id=self.name, member_id=found.member_id)

        return self._remove(name, command)

    def _waits(self, name: str) -> str:
        waiting = [each.parked_in for each in self._now().members if name in _names_of(each)]
        return f"the {' or '.join(map(str, waiting))} of {name} to be answered: no session ends meanwhile. {self._in_words()}"

    def _remove(self, name: str, make: Callable[[MemberSnapshot], Command | None]) -> bool:
        """Run the command that `make` gives for the member; False where it gives none."""

        def run(components: Components) -> tuple[tuple[MemberSnapshot, ...], bool]:
            # Found and removed in one go: in between, its client might send a request.
            members = self._read(components).members
            found = [member for member in members if name in _names_of(member)]
            command = make(found[0]) if len(found) == 1 else None
            loop = coordinator_of(components, self.name)
            if command is not None and loop is not None:
                loop.run(command)
            return members, command is not None

        members, is_removed = self._run_in_loop(run)
        found = [member for member in members if name in _names_of(member)]
        if len(found) != 1:
            many = f"{len(found)} members of group {self.name} are named {name}: use a member id of {', '.join(m.member_id for m in found)}"
            none = f"group {self.name} has no member {name}: its members are {_names_and_ids(members) or 'none'}"
            raise AssertionError(many if found else none)
        return is_removed

    def _now(self) -> GroupNow:
        return self._run_in_loop(self._read)

    def _read(self, components: Components) -> GroupNow:
        return group_now(components, self.name, self._owned_by(self.name))

    def _is(self, state: str | None, members: int | None, lag: int | None) -> bool:
        now = self._now()
        return (
            (state is None or now.state == state)
            and (members is None or len(now.members) == members)
            and (lag is None or (now.lag is not None and now.lag <= lag))
        )

    def _wanted(self, state: str | None, members: int | None, lag: int | None) -> str:
        wanted = [f"state {state}"] if state is not None else []
        wanted += [counted(members, "member")] if members is not None else []
        wanted += [f"a lag of at most {lag}"] if lag is not None else []
        return f"group {self.name} to have {' and '.join(wanted)}. {self._in_words()}"

    def _expectation(self, count: int | None, unplanned: int | None) -> Expectation:
        if count is unplanned is None:
            raise ValueError("expect needs a number of rebalances, or of unplanned ones")
        return Expectation(self.name, count, unplanned, rebalances_now=self._rebalances, group_in_words=self._in_words)

    def _in_words(self) -> str:
        now = self._now()
        has = f"{counted(len(now.members), 'member')}{f' ({_names(now.members)})' if now.members else ''}"
        lag = "no offsets" if now.lag is None else f"a lag of {now.lag}"
        lag += ", and no member to read it" if now.lag and not now.members else ""
        state = "It does not exist" if now.state == "Dead" else f"It is {now.state} and has {has} and {lag}"
        return f"{state}. {rebalances_in_words(self._rebalances())}"

    def _rebalances(self) -> list[Rebalance]:
        history = histories_of_events(self.events()).get(self.name)
        return [] if history is None else list(history.generations())


def _check_conditions(state: str | None, members: int | None, lag: int | None) -> None:
    states = list(dict.fromkeys([*(each.value for each in GroupState), *CONSUMER_STATES]))
    if state is not None and state not in states:
        raise ValueError(f"groups have no state {state!r}{did_you_mean(state, states) or ': they have ' + ', '.join(states)}")
    if state is None and members is None and lag is None:
        raise ValueError("wait needs a condition: state, members or lag")


def _names_of(member: MemberSnapshot) -> tuple[str | None, ...]:
    return member.client_id, member.instance_id, member.member_id


def _names(members: Sequence[MemberSnapshot]) -> str:
    return ", ".join(sorted(member.instance_id or member.client_id for member in members))


def _names_and_ids(members: Sequence[MemberSnapshot]) -> str:
    return ", ".join(sorted(f"{member.instance_id or member.client_id} ({member.member_id})" for member in members))
