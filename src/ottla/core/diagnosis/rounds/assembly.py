"""From evidence to the rounds of each group: the whole way, in the order of its steps."""

from collections.abc import Iterable, Mapping

from ottla.core.diagnosis.evidence.model import Evidence, Source
from ottla.core.diagnosis.rounds.attribution import by_group
from ottla.core.diagnosis.rounds.client_logs import ClientLogs
from ottla.core.diagnosis.rounds.follow_ups import join_follow_ups
from ottla.core.diagnosis.rounds.identity import KnownMembers
from ottla.core.diagnosis.rounds.membership import MembershipWalk
from ottla.core.diagnosis.rounds.merging import by_clock, merge
from ottla.core.diagnosis.rounds.returns import Returns
from ottla.core.diagnosis.rounds.round import Round
from ottla.core.diagnosis.rounds.subscriptions import note_resubscribed


def rounds_of_groups(evidence: Iterable[Evidence]) -> dict[str, list[Round]]:
    """The rounds of every group, each group's in order. Evidence that belongs to no group is left out."""
    return {group: rounds_of_group(group, items) for group, items in by_group(evidence).items()}


def rounds_of_group(group: str, evidence: Iterable[Evidence]) -> list[Round]:
    """The rounds of one group, in order. All evidence is of this group."""
    clocks = by_clock(evidence)
    known = KnownMembers()
    for items in clocks.values():
        known.learn(items)
    seen_by_clients = {clock: items for clock, items in clocks.items() if items[0].source is Source.CLIENT_LOG}
    rounds = merge(group, {clock: items for clock, items in clocks.items() if clock not in seen_by_clients})
    rounds = ClientLogs(known).place(group, rounds, seen_by_clients)
    walk, returns = MembershipWalk(known), Returns()
    for each in rounds:
        walk.take(each)
        returns.take(each)
    note_resubscribed(rounds)
    return join_follow_ups(rounds)


def clocks_of(rounds: Mapping[str, list[Round]]) -> set[str]:
    """Every clock that a round's times are of."""
    return {each.clock for of_group in rounds.values() for each in of_group}
