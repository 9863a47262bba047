"""What happened in one consumer group, from all evidence together: the one history that tables, tests, reports and metrics show.

    histories = group_histories(evidence)
    for rebalance in histories["orders"].rebalances:
        print(rebalance.generation, rebalance.verdict.cause, rebalance.verdict.planned, rebalance.partitions_moved)

All values are frozen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.groups.events import GroupEvent
from ottla.history.processes import Process, Processes, distinct_names, of_member
from ottla.history.rounds.assembly import assemble, complete_by_group
from ottla.history.rounds.round import Membership, Round
from ottla.history.sources.evidence import CommitSpan, Evidence, Kind
from ottla.history.sources.group_events import BROKER_CLOCK, evidence_of_events
from ottla.history.story.arrays import LagHistory
from ottla.history.verdicts.cost import reconciliations
from ottla.history.verdicts.judging import judge_follow_up, judge_rounds
from ottla.history.verdicts.verdict import REBALANCE, Reconciliation, Verdict
from ottla.protocol.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHistory:
    """One process, over all the member ids that it has had.

    name: the instance id, else the client id, else the member id; with a number where several processes share it. ids: (when it was first
    seen, member id). present: (from, to) of each time in which it was a member; to None: it still is when the evidence ends. Timeouts
    are None where no source shows them.
    """

    name: str
    client_id: str
    client_host: str
    instance_id: str | None
    ids: tuple[tuple[int, str], ...]
    present: tuple[tuple[int, int | None], ...]
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance, or (`is_avoided`) one that did not happen. None: the evidence does not say.

    generation: the one that it formed, or would have formed (KIP-848: the group epoch). started_ms: its first trigger; formed_ms: all
    members had joined (or the last had left); ended_ms: the assignment was stored; all are of `clock`. outcome: completed, emptied (the
    last member is gone), superseded (the next one began before the assignment was stored), interrupted (the coordinator was loaded again,
    or the group deleted), open (not ended when the evidence ends).

    verdict: why it happened, whether it was planned, its cost and advice. triggers: what asked for it, in the words of the most
    informative source, those that came while it ran included. before, after: its members with their assignments, as they are listed.
    protocol: the assignor. is_consumer_type: the group speaks KIP-848. partitions_moved: those whose last known owner was another process;
    partitions_new: those that were in no assignment before. reconciled: KIP-848, the members whose partitions changed, in the order in
    which they came to the target. follow_ups: second halves of a cooperative rebalance, each with a generation
    of its own, in their order; they have no further ones.
    """

    group: str
    generation: int | None
    clock: str
    started_ms: int
    formed_ms: int | None
    ended_ms: int | None
    outcome: str
    is_avoided: bool
    verdict: Verdict
    triggers: tuple[Evidence, ...]
    members_before: int | None
    members_after: int | None
    before: Membership | None
    after: Membership | None
    protocol: str | None
    is_consumer_type: bool
    partitions_assigned: int | None
    partitions_moved: int | None
    partitions_new: int | None
    reconciled: tuple[Reconciliation, ...] = ()
    follow_ups: "tuple[Rebalance, ...]" = ()

    @property
    def trigger(self) -> str | None:
        """The code of the first trigger, where an Ottla broker published it (docs/rebalances.md)."""
        return self.triggers[0].trigger_code if self.triggers else None

    @property
    def coalesced(self) -> tuple[str, ...]:
        """The codes of the triggers that came while it ran."""
        return tuple(trigger.trigger_code or "" for trigger in self.triggers[1:])

    @property
    def join_ms(self) -> int | None:
        """From the first trigger until all members had joined."""
        return self.formed_ms - self.triggers[0].at_ms if self.triggers and self.formed_ms is not None else None

    @property
    def sync_ms(self) -> int | None:
        """From the joined generation to the stored assignment."""
        has_synced = self.outcome == "completed" and self.formed_ms is not None and self.ended_ms is not None
        return (self.ended_ms or 0) - (self.formed_ms or 0) if has_synced else None

    @property
    def joined(self) -> tuple[str, ...] | None:
        """The members that were not there before: instance ids, or else member ids."""
        return None if self.before is None or self.after is None else tuple(sorted(self.after.names - self.before.names))

    @property
    def left(self) -> tuple[str, ...] | None:
        """The members that were there before and are not any more."""
        return None if self.before is None or self.after is None else tuple(sorted(self.before.names - self.after.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who owns what since `at_ms`: for each process by its name in `GroupHistory.members`, the partitions of each topic."""

    at_ms: int
    generation: int | None
    protocol: str | None
    owners: Mapping[str, Mapping[str, Sequence[int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommits:
    """Commits of some partitions, as one clock says them together."""

    at_ms: int
    clock: str
    spans: Mapping[TopicPartition, CommitSpan]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """One group.

    members: its processes, in the order in which they were first seen. rebalances: in their order, those that were avoided included.
    assignments: owners over time, one for each stored assignment that a source lists. commits: in the order of their clocks. lag: messages
    left to read over time, where it was measured. returned: by the member id of a client that came back, its id before.
    """

    group: str
    members: tuple[MemberHistory, ...] = ()
    rebalances: tuple[Rebalance, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    commits: tuple[GroupCommits, ...] = ()
    lag: LagHistory | None = None
    returned: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdict of each rebalance."""
        return [rebalance.verdict for rebalance in self.rebalances]

    def generations(self) -> Iterator[Rebalance]:
        """Each rebalance that happened, and each second half of a cooperative one behind it: one for each generation."""
        for rebalance in self.rebalances:
            if not rebalance.is_avoided:
                yield rebalance
                yield from rebalance.follow_ups


def group_histories(evidence: Iterable[Evidence], *, lag: Mapping[str, LagHistory] | None = None) -> dict[str, GroupHistory]:
    """The history of every group; evidence that belongs to no group is left out. `lag`: by group, where it was measured."""
    groups = complete_by_group(evidence)
    return {group: history_of_group(group, items, lag=(lag or {}).get(group)) for group, items in groups.items()}


def histories_of_events(events: Iterable[GroupEvent]) -> dict[str, GroupHistory]:
    """The history of every group in an Ottla broker's events, e.g. those that `Broker(on_group_event=...)` passes on."""
    return group_histories(evidence_of_events(events, clock=BROKER_CLOCK))


def history_of_group(group: str, evidence: Iterable[Evidence], *, lag: LagHistory | None = None) -> GroupHistory:
    """The history of one group; all evidence is of this group, and complete (`complete_by_group`)."""
    items = list(evidence)
    rounds, processes = assemble(group, items)
    verdicts = judge_rounds(rounds)
    last = next((rebalance for rebalance in reversed(rounds) if not rebalance.is_avoided), None)
    names = distinct_names([process.name for process in processes.rows])
    return GroupHistory(
        group=group,
        members=tuple(_member(process, name) for process, name in zip(processes.rows, names, strict=True)),
        rebalances=tuple(
            _rebalance(rebalance, verdict, is_last=rebalance is last) for rebalance, verdict in zip(rounds, verdicts, strict=True)
        ),
        assignments=tuple(_assignments(rounds, processes, names)),
        commits=tuple(
            GroupCommits(at_ms=item.at_ms, clock=item.clock, spans=item.commits)
            for item in sorted(items, key=lambda item: item.at_ms)
            if item.kind is Kind.COMMITS
        ),
        lag=lag,
        returned=processes.returned,
    )


def _member(process: Process, name: str) -> MemberHistory:
    member = process.member
    return MemberHistory(
        name=name,
        client_id=member.client_id,
        client_host=member.client_host,
        instance_id=member.instance_id,
        ids=tuple(process.ids),
        present=tuple(process.present),
        session_timeout_ms=member.session_timeout_ms if member.session_timeout_ms > 0 else None,
        rebalance_timeout_ms=member.rebalance_timeout_ms if member.rebalance_timeout_ms > 0 else None,
    )


def _rebalance(rebalance: Round, verdict: Verdict, *, is_last: bool) -> Rebalance:
    main = rebalance.main
    own_end_ms = verdict.ended_ms if main is None else main.ended_ms
    change = None if main is not None and main.is_emptied else rebalance.change
    follow_ups = tuple(
        _rebalance(half, judge_follow_up(half, verdict, is_last=is_last and half is rebalance.follow_ups[-1]), is_last=False)
        for half in rebalance.follow_ups
    )
    return Rebalance(
        group=rebalance.group,
        generation=rebalance.generation,
        clock=rebalance.clock,
        started_ms=rebalance.started_ms,
        formed_ms=_formed_ms(rebalance),
        ended_ms=own_end_ms,
        outcome=verdict.outcome,
        is_avoided=verdict.kind != REBALANCE,
        verdict=verdict,
        triggers=tuple(main.of_kind(Kind.TRIGGER)) if main is not None else (),
        members_before=rebalance.count_before,
        members_after=rebalance.count_after,
        before=rebalance.before,
        after=rebalance.after,
        protocol=rebalance.protocol_after,
        is_consumer_type=rebalance.is_consumer_type,
        partitions_assigned=change and change.assigned,
        partitions_moved=change and change.all_moved,
        partitions_new=change and change.new,
        reconciled=reconciliations(rebalance),
        follow_ups=follow_ups,
    )


def _formed_ms(rebalance: Round) -> int | None:
    """When the generation was formed, or the group became empty."""
    main = rebalance.main
    if main is None:
        return None
    return main.ended_ms if main.is_emptied else main.formed_ms


def _assignments(rounds: Sequence[Round], processes: Processes, names: Sequence[str]) -> Iterator[Assignment]:
    for rebalance in rounds:
        for half in (rebalance, *rebalance.follow_ups):
            if half.change is None or half.after is None:
                continue
            members = list(half.after.members.values())
            owners = {}
            for member in members:
                row = processes.find(of_member(member))
                if row is not None and member.assignment:
                    owners[names[row]] = member.assignment
            ended_ms = half.main.ended_ms if half.main is not None else None
            yield Assignment(
                at_ms=half.started_ms if ended_ms is None else ended_ms,
                generation=half.generation,
                protocol=half.protocol_after,
                owners=owners,
            )
