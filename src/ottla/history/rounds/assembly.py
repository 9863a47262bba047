"""From evidence to the rounds of each group: which group evidence belongs to, and the whole way in the order of its steps.

The last steps are here, too. What each assignment moved, and when each process was a member. And the second half of a cooperative
rebalance, which is joined to the first: it is one rebalance for its users, who lose and get partitions once. It is one if the members say
so ("need to revoke partitions and re-join"), or if it only assigns what the assignment before had revoked.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.history.processes import KnownMembers, Owners, Processes
from ottla.history.rounds.membership import MembershipWalk, Role, first_code, note_resubscribed, role_of
from ottla.history.rounds.merging import FENCED_WITHIN_MS, ClientLogs, by_clock, merge
from ottla.history.rounds.returns import SESSION_MAX_MS, Returns
from ottla.history.rounds.round import Membership, Round
from ottla.history.rounds.splitting import SOURCE_RANK, refused_part
from ottla.history.sources.clocks import complete_departures
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source, name_in_member_id
from ottla.history.sources.outages import note_outages

FOLLOWS_WITHIN_MS: Final = 10_000
REVOKE_REASON: Final = "need to revoke partitions"
_SEVERAL = ""


def returned_ids(rounds: Sequence[Round]) -> dict[str, str]:
    """By the member id of each client that came back: its id before. Left out where it may be another client of the same name."""
    found: dict[str, str] = {}
    for rebalance in rounds:
        for arrival in rebalance.arrivals:
            loss = arrival.loss
            if loss is None or loss.is_shared_name or loss.is_nameless_pair or loss.is_replaced_before:
                continue
            if arrival.who.member_id is not None and loss.who.member_id is not None:
                found[arrival.who.member_id] = loss.who.member_id
    return found


def follow_owners(rounds: Sequence[Round]) -> Processes:
    """Give each round what its assignment changed; the processes of the group, with the times at which they were members."""
    walk = _OwnershipWalk(returned_ids(rounds))
    for rebalance in rounds:
        if not rebalance.is_avoided:
            walk.take(rebalance)
    walk.end()
    return walk.processes


class _OwnershipWalk:
    def __init__(self, returned: dict[str, str]) -> None:
        self.processes = Processes(returned)
        self._owners = Owners(self.processes)
        self._last: Membership | None = None
        self._here: dict[int, int] = {}
        """Since when each process is a member."""

    def take(self, rebalance: Round) -> None:
        """The next round."""
        if rebalance.before is not None and rebalance.before is not self._last:
            members = list(rebalance.before.members.values())
            if rebalance.before.has_assignments:
                self._owners.set(members, rebalance.started_ms)
            for member_row in self.processes.rows_of(members, rebalance.started_ms):
                self._here.setdefault(member_row, rebalance.started_ms)
        for departure in rebalance.departures:
            row = self.processes.find(departure.who)
            if row is None:
                row = self.processes.row_of(departure.who, self._here, departure.at_ms)
            self._leave(row, departure.at_ms)
        if rebalance.after is None:
            for arrival in rebalance.arrivals:
                self._here.setdefault(self.processes.row_of(arrival.who, self._here, arrival.at_ms), arrival.at_ms)
        else:
            self._set_members(rebalance, rebalance.after)
        self._last = rebalance.before if rebalance.after is None else rebalance.after

    def end(self) -> None:
        """Who is here stays."""
        for row, from_ms in self._here.items():
            self.processes.rows[row].present.append((from_ms, None))

    def _set_members(self, rebalance: Round, after: Membership) -> None:
        members = list(after.members.values())
        if after.has_assignments:
            rebalance.change = self._owners.update(members, rebalance.started_ms)
        rows = self.processes.rows_of(members, rebalance.started_ms)
        joined_ms = {arrival.who.member_id: arrival.at_ms for arrival in rebalance.arrivals}
        for row in self._here.keys() - set(rows):
            self._leave(row, rebalance.started_ms)
        for row, member in zip(rows, members, strict=True):
            self._here.setdefault(row, joined_ms.get(member.member_id, rebalance.started_ms))

    def _leave(self, row: int, at_ms: int) -> None:
        from_ms = self._here.pop(row, None)
        if from_ms is not None:
            self.processes.rows[row].present.append((from_ms, at_ms))


def join_follow_ups(rounds: list[Round]) -> list[Round]:
    """The rounds without follow-ups, which are in `follow_ups` of the round that they belong to."""
    found: list[Round] = []
    parent: Round | None = None
    for rebalance in rounds:
        if rebalance.is_avoided:
            found.append(rebalance)
            continue
        if parent is not None and is_follow_up(rebalance):
            parent.follow_ups.append(rebalance)
            parent.count_after = rebalance.count_after
            continue
        found.append(rebalance)
        parent = rebalance
    return found


def is_follow_up(rebalance: Round) -> bool:
    """Whether the round is the second half of the one before it."""
    if rebalance.departures or rebalance.arrivals or rebalance.previous is None:
        return False
    if rebalance.previous.clock == rebalance.clock and rebalance.started_ms - rebalance.previous.ended_ms > FOLLOWS_WITHIN_MS:
        return False
    return says_follow_up(rebalance) or moves_only_revoked(rebalance)


def says_follow_up(rebalance: Round) -> bool:
    """Whether members gave it as their reason, and no member gave another cause."""
    items = [item for item in rebalance.items if item.kind is Kind.TRIGGER and role_of(item) in (Role.REJOINED, Role.OTHER)]
    items += [item for item in rebalance.client_items if item.kind is Kind.CLIENT_REJOINS]
    said = [
        first_code(item) == Cause.COOP_FOLLOWUP or REVOKE_REASON in (item.client_reason or "")
        for item in items
        if (item.trigger is not None or REVOKE_REASON in (item.client_reason or ""))
    ]
    return bool(said) and all(said)


def moves_only_revoked(rebalance: Round) -> bool:
    """Whether the assignment gives out only what the one before had taken away, and takes nothing."""
    diff = rebalance.diff
    return diff is not None and diff.regained > 0 and diff.moved == diff.new == diff.gone == 0


def add_refused(group: str, rounds: list[Round], items: Sequence[Evidence]) -> None:
    """Add the refusals that a client's log has, those that follow each other as one, where no other source shows them."""
    last_ms: int | None = None
    for item in items:
        is_known = any(
            each.is_avoided and each.of_kind(Kind.JOIN_REFUSED) and abs(each.started_ms - item.at_ms) <= FENCED_WITHIN_MS for each in rounds
        )
        if not is_known and (last_ms is None or item.at_ms - last_ms > FENCED_WITHIN_MS):
            at = next((at for at, each in enumerate(rounds) if each.started_ms > item.at_ms), len(rounds))
            rounds.insert(at, Round(group=group, generation=None, parts=[refused_part(item)], is_avoided=True))
        last_ms = item.at_ms


def note_owners(rounds: Sequence[Round]) -> None:
    """Give refused members whether the owner of their instance id was dead. Where others are lost with it, all ended together later."""
    lost = [
        (each, len(rebalance.departures) == 1)
        for rebalance in rounds
        for each in rebalance.departures
        if each.role == Role.EXPIRED and not each.had_left_for_now
    ]
    for rebalance in rounds:
        refused = rebalance.of_kind(Kind.JOIN_REFUSED) if rebalance.is_avoided else ()
        if refused and refused[0].instance_id is not None:
            own = [(each, is_alone) for each, is_alone in lost if each.who.instance_id == refused[0].instance_id]
            near = [is_alone for each, is_alone in own if 0 <= each.at_ms - rebalance.started_ms <= SESSION_MAX_MS]
            rebalance.is_owner_silent = None if near and not any(near) else bool(near)


def complete_by_group(evidence: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    """`by_group`, with what only the evidence of all groups together says: how members departed, and what a broker lost at once."""
    return by_group(note_outages(complete_departures(list(evidence))))


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
    for items in sorted(clocks.values(), key=lambda items: (SOURCE_RANK[items[0].source], items[0].clock)):
        known.learn(items)
    seen_by_clients = {clock: items for clock, items in clocks.items() if items[0].source is Source.CLIENT_LOG}
    refused = {clock: [item for item in items if item.kind is Kind.JOIN_REFUSED] for clock, items in seen_by_clients.items()}
    rounds = merge(group, {clock: items for clock, items in clocks.items() if clock not in seen_by_clients})
    rounds = ClientLogs(known).place(group, rounds, seen_by_clients)
    for items in refused.values():
        add_refused(group, rounds, items)
    walk, returns = MembershipWalk(known), Returns()
    for rebalance in rounds:
        walk.take(rebalance)
        returns.take(rebalance)
    processes = follow_owners(rounds)
    note_resubscribed(rounds)
    note_owners(rounds)
    return Assembly(join_follow_ups(rounds), processes)
