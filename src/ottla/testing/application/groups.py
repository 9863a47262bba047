"""A consumer group of the application under test: wait for it, read it, count its rebalances, remove its members.

Nothing here is a member of the group or sends requests about it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from ottla.broker.composition import Components
from ottla.core.diagnosis.rebalances import Rebalance, rebalances
from ottla.core.diagnosis.story.words import counted
from ottla.core.groups.classic.leave import ADMIN_REASON
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.commands import Command, EvictMember, ExpireMember
from ottla.core.groups.snapshots import MemberSnapshot
from ottla.core.model import GroupEvent, TopicPartition
from ottla.core.suggestions import did_you_mean
from ottla.testing.application.group_reading import GroupNow, coordinator_of, group_now
from ottla.testing.application.group_words import rebalances_in_words
from ottla.testing.kit.waiting import wait_until

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""How long a wait may take; it ends as soon as its condition holds."""


class RunInLoop(Protocol):
    """Calls a function with the brokers' components in their loop; returns what it returns."""

    def __call__(self, work: Callable[[Components], T]) -> T: ...


class Group:
    """One consumer group, which need not exist yet. Made by `ottla_broker.group(name)`."""

    def __init__(self, name: str, run_in_loop: RunInLoop, read_events: Callable[[str], tuple[GroupEvent, ...]]) -> None:
        self.name = name
        self._run_in_loop = run_in_loop
        self._read_events = read_events

    def wait(self, *, state: str | None = None, members: int | None = None, lag: int | None = None, timeout: float = TIMEOUT_S) -> None:
        """Wait until all of these hold: the state ("Stable", "Empty", ...), so many members, and a lag of at most so many records.

        The lag is that of all partitions with a committed offset or an owner; where nothing is committed, all records count. Raises
        AssertionError after `timeout` seconds, with the group as it is then and its rebalances in words; ValueError without a
        condition, and for a state that groups do not have.
        """
        states = [each.value for each in GroupState]
        if state is not None and state not in states:
            raise ValueError(f"groups have no state {state!r}{did_you_mean(state, states) or ': they have ' + ', '.join(states)}")
        if state is None and members is None and lag is None:
            raise ValueError("wait needs a condition: state, members or lag")

        def holds() -> bool:
            now = self._now()
            return (
                (state is None or now.state == state)
                and (members is None or len(now.members) == members)
                and (lag is None or (now.lag is not None and now.lag <= lag))
            )

        wanted = [f"state {state}"] if state is not None else []
        wanted += [counted(members, "member")] if members is not None else []
        wanted += [f"a lag of at most {lag}"] if lag is not None else []
        wait_until(holds, lambda: f"group {self.name} to have {' and '.join(wanted)}. {self._in_words()}", seconds=timeout)

    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets by (topic, partition); empty where there is no such group."""
        return dict(self._now().committed)

    def assignment(self) -> dict[str, list[TopicPartition]]:
        """The partitions of each member, by its group.instance.id, or else its client id (where members share one: its member id).

        As the leader assigned them last: during a rebalance those of before, and none for a member that has just joined.
        """
        members = self._now().members
        shared = Counter(each.client_id for each in members if each.instance_id is None)
        return {
            each.instance_id or (each.client_id if shared[each.client_id] == 1 else each.member_id): sorted(
                TopicPartition(topic, number) for topic, numbers in each.assigned.items() for number in numbers
            )
            for each in members
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
        if rebalances is unplanned is None:
            raise ValueError("expect needs a number of rebalances, or of unplanned ones")
        before = len(self._rebalances())
        yield
        wanted = [counted(rebalances, "rebalance")] if rebalances is not None else []
        wanted += [f"{unplanned} unplanned"] if unplanned is not None else []
        text = f"expected {' and '.join(wanted)} of group {self.name}"

        def count() -> tuple[int, int, bool]:
            inside = self._rebalances()[before:]
            return len(inside), sum(each.planned is False for each in inside), bool(inside) and inside[-1].outcome == "open"

        def has_come() -> bool:
            begun, lost, is_open = count()
            return begun >= (rebalances or 0) and lost >= (unplanned or 0) and not is_open

        wait_until(has_come, lambda: f"{text}. {self._counted(count())}", seconds=timeout)
        begun, lost, _ = count()
        if (rebalances is not None and begun != rebalances) or (unplanned is not None and lost != unplanned):
            raise AssertionError(f"{text}. {self._counted((begun, lost, False))}")

    def evict(self, member: str, *, reason: str = ADMIN_REASON) -> None:
        """Remove a member, as an administrator does: cause ADMIN_REMOVE. Its client learns it from its next request, and joins again.

        `member` is a client id, group.instance.id or member id. With the reason "consumer poll timeout has expired.", which Java
        consumers send, the cause is POLL_TIMEOUT. Raises AssertionError when no member, or more than one, has the name.
        """
        self._remove(member, lambda found: EvictMember(group_id=self.name, member_id=found.member_id, reason=reason))

    def expire(self, member: str) -> None:
        """End a member's session at once, as if its client had been silent for session.timeout.ms: cause EXPIRE_HEARTBEAT.

        `member` is a client id, group.instance.id or member id. Raises AssertionError when no member, or more than one, has the name, and
        when the member waits in JoinGroup or SyncGroup: its session does not end meanwhile.
        """

        def command(found: MemberSnapshot) -> Command:
            if found.parked_in is not None and not found.is_new:  # as Kafka: a new member's session ends also then
                raise AssertionError(f"{member} waits in {found.parked_in}: its session does not end meanwhile. {self._in_words()}")
            return ExpireMember(group_id=self.name, member_id=found.member_id)

        self._remove(member, command)

    def _remove(self, name: str, make: Callable[[MemberSnapshot], Command]) -> None:
        now = self._now()
        found = [each for each in now.members if name in (each.client_id, each.instance_id, each.member_id)]
        if len(found) != 1:
            many = f"{len(found)} members of group {self.name} are named {name}: use a member id of {', '.join(m.member_id for m in found)}"
            none = f"group {self.name} has no member {name}: its members are {_names_and_ids(now.members) or 'none'}"
            raise AssertionError(many if found else none)
        command = make(found[0])

        def run(components: Components) -> None:
            loop = coordinator_of(components, self.name)
            if loop is not None:
                loop.run(command)

        self._run_in_loop(run)

    def _now(self) -> GroupNow:
        return self._run_in_loop(lambda components: group_now(components, self.name))

    def _rebalances(self) -> list[Rebalance]:
        return rebalances(self.events())

    def _counted(self, counts: tuple[int, int, bool]) -> str:
        begun, lost, _ = counts
        return f"{begun} began, {lost} of them unplanned. {self._in_words()}"

    def _in_words(self) -> str:
        now = self._now()
        has = f"{counted(len(now.members), 'member')}{f' ({_names(now.members)})' if now.members else ''}"
        lag = "no offsets" if now.lag is None else f"a lag of {now.lag}"
        state = "It does not exist" if now.state == "Dead" else f"It is {now.state} and has {has} and {lag}"
        return f"{state}. {rebalances_in_words(self.events())}"


def _names(members: Sequence[MemberSnapshot]) -> str:
    return ", ".join(sorted(each.instance_id or each.client_id for each in members))


def _names_and_ids(members: Sequence[MemberSnapshot]) -> str:
    return ", ".join(sorted(f"{each.instance_id or each.client_id} ({each.member_id})" for each in members))
