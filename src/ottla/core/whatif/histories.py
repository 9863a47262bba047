"""The actions of each process, collected while a group's rounds are read in their order."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ottla.core.diagnosis.rounds.identity import Identity
from ottla.core.model import EventMember
from ottla.core.whatif.behaviour import Action, ActionKind, Process


@dataclass(slots=True, eq=False)
class History:
    """One process over all its member ids. Timeouts are None where no source says them."""

    who: Identity
    actions: list[Action] = field(default_factory=list)
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    is_present: bool = True

    @property
    def started_ms(self) -> int:
        """When it last started: it cannot have stopped to poll before."""
        return next((action.at_ms for action in reversed(self.actions) if action.kind is ActionKind.START), 0)

    def add(self, *actions: Action) -> None:
        """Add what it did; sources may report it in another order."""
        self.actions += actions
        self.actions.sort(key=_at_ms)

    def process(self, name: str, *, session_timeout_ms: int, rebalance_timeout_ms: int, topics: frozenset[str]) -> Process:
        """The process, with these timeouts where its own are not known."""
        return Process(
            name=name,
            client_id=self.who.client_id or name,
            client_host=self.who.client_host or "",
            instance_id=self.who.instance_id,
            session_timeout_ms=self.session_timeout_ms or session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms or rebalance_timeout_ms,
            topics=topics,
            actions=tuple(self.actions),
        )


class Histories:
    """All processes of a group, by the member ids that they have had."""

    def __init__(self) -> None:
        self.all: list[History] = []
        self._by_member_id: dict[str, History] = {}

    def of(self, who: Identity) -> History | None:
        """The process that has or had this member id; or, for a static member, this instance id."""
        found = self._by_member_id.get(who.member_id or "")
        if found is None and who.instance_id is not None:
            found = next((each for each in reversed(self.all) if each.who.instance_id == who.instance_id), None)
        return found

    def has(self, member_id: str | None) -> bool:
        """Whether a process has or had this member id."""
        return member_id in self._by_member_id

    def start(self, who: Identity, at_ms: int) -> History:
        """A process that joins; one that ended before under the same name and on the same host, and is not there, starts again."""
        again = [each for each in self.all if not each.is_present and each.who.is_same_client(who) and each.who.has_same_host(who)]
        history = again[-1] if len(again) == 1 and not self._is_shared(who) else History(who)
        if history not in again:
            self.all.append(history)
        history.add(Action(at_ms=at_ms, kind=ActionKind.START))
        history.is_present = True
        self.rename(history, who)
        return history

    def rename(self, history: History, who: Identity) -> None:
        """The process has this member id from now on."""
        if who.member_id is not None:
            self._by_member_id[who.member_id] = history

    def merge(self, first: History, second: History) -> None:
        """Both are one process: what the second did belongs to the first."""
        if first is second:
            return
        first.add(*second.actions)
        first.is_present = second.is_present
        self.all.remove(second)
        for member_id, history in list(self._by_member_id.items()):
            if history is second:
                self._by_member_id[member_id] = first

    def learn(self, member: EventMember) -> None:
        """Remember the timeouts of a member that a source lists."""
        history = self._by_member_id.get(member.member_id)
        if history is not None:
            # -1 where a source does not know them.
            history.session_timeout_ms = max(0, member.session_timeout_ms) or history.session_timeout_ms
            history.rebalance_timeout_ms = max(0, member.rebalance_timeout_ms) or history.rebalance_timeout_ms

    def named(self) -> Iterator[tuple[str, History]]:
        """Each process with a name that no other has: its instance id or client id, numbered where several share it."""
        counts: dict[str, int] = {}
        used: set[str] = set()
        for history in self.all:
            label = name = history.who.label
            while name in used:
                counts[label] = counts.get(label, 1) + 1
                name = f"{label}#{counts[label]}"
            used.add(name)
            yield name, history

    def _is_shared(self, who: Identity) -> bool:
        return any(each.is_present and each.who.is_same_client(who) and each.who.has_same_host(who) for each in self.all)


def _at_ms(action: Action) -> int:
    return action.at_ms
