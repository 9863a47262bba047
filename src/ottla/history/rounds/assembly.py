"""From evidence to the rounds of each group: which group evidence belongs to, and the whole way in the order of its steps."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.history.processes import Processes
from ottla.history.rounds.client_logs import ClientLogs
from ottla.history.rounds.follow_ups import join_follow_ups
from ottla.history.rounds.identity import KnownMembers
from ottla.history.rounds.membership import MembershipWalk
from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.ownership import follow_owners
from ottla.history.rounds.returns import Returns
from ottla.history.rounds.round import Round
from ottla.history.rounds.splitting import SOURCE_RANK
from ottla.history.rounds.subscriptions import note_resubscribed
from ottla.history.sources.model import Evidence, Source, name_in_member_id

_SEVERAL = ""


def by_group(evidence: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    """The evidence of each group, in the order in which it came; what belongs to no group is left out."""
    found: dict[str, list[Evidence]] = {}
    nameless: list[Evidence] = []
    for item in evidence:
        if item.group is None:
            nameless.append(item)
        else:
            found.setdefault(item.group, []).append(item)
    if nameless:
        names = _Names(found)
        for item in nameless:
            group = names.group_of(item)
            if group is not None:
                found[group].append(item)
    return found


class _Names:
    """Which group each member id, client id and log belongs to."""

    def __init__(self, groups: dict[str, list[Evidence]]) -> None:
        self._of_member: dict[str, str] = {}
        self._of_client: dict[str, str] = {}
        self._of_clock: dict[str, str] = {}
        for group, items in groups.items():
            for item in items:
                self._add(group, item.member_id, item.client_id)
                for member in item.members or ():
                    self._add(group, member.member_id, member.client_id)
                if item.source == "client-log":
                    self._put(self._of_clock, item.clock, group)

    def group_of(self, item: Evidence) -> str | None:
        """The group, if exactly one is possible: by member id, by client id, by the only group of the same log."""
        known = self._of_member.get(item.member_id or "") or self._of_client.get(item.client_id or "") or self._of_clock.get(item.clock)
        return known or None

    def _add(self, group: str, member_id: str | None, client_id: str | None) -> None:
        self._put(self._of_member, member_id, group)
        self._put(self._of_client, client_id or name_in_member_id(member_id), group)

    @staticmethod
    def _put(names: dict[str, str], name: str | None, group: str) -> None:
        if name and names.setdefault(name, group) != group:
            names[name] = _SEVERAL


class Assembly(NamedTuple):
    """The rounds of one group in their order, and the processes behind its members."""

    rounds: list[Round]
    processes: Processes


def rounds_of_group(group: str, evidence: Iterable[Evidence]) -> list[Round]:
    """The rounds of one group, in order. All evidence is of this group."""
    return assemble(group, evidence).rounds


def assemble(group: str, evidence: Iterable[Evidence]) -> Assembly:
    """The rounds and processes of one group. All evidence is of this group."""
    clocks = by_clock(evidence)
    known = KnownMembers()
    for items in sorted(clocks.values(), key=_by_source):
        known.learn(items)
    seen_by_clients = {clock: items for clock, items in clocks.items() if items[0].source is Source.CLIENT_LOG}
    rounds = merge(group, {clock: items for clock, items in clocks.items() if clock not in seen_by_clients})
    rounds = ClientLogs(known).place(group, rounds, seen_by_clients)
    walk, returns = MembershipWalk(known), Returns()
    for each in rounds:
        walk.take(each)
        returns.take(each)
    processes = follow_owners(rounds)
    note_resubscribed(rounds)
    return Assembly(join_follow_ups(rounds), processes)


def _by_source(items: Sequence[Evidence]) -> tuple[int, str]:
    return SOURCE_RANK[items[0].source], items[0].clock
