"""What happened to groups as an operator would list it: rebalances of several members and groups that belong together are one incident.

    for incident in find_incidents(verdicts):
        print(incident.kind, incident.groups, incident.culprits, incident.stopped_partition_seconds)

Nothing is judged here: causes are those of the verdicts. Losses of several members at one instant have one cause, which is not the members.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ottla.history.patterns import Deployment, find_deployments
from ottla.history.sources.evidence import Cause, Source
from ottla.history.verdicts.arrival_rules import STILL_LISTED
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, Confidence, SettingAdvice, Verdict


class IncidentKind(StrEnum):
    """What an operator calls it."""

    BROKER_OUTAGE = "broker outage"
    """Members of several groups were lost at one instant, or their coordinators moved."""
    COORDINATOR_MOVE = "coordinator move"
    """The same, of one group at a time."""
    MASS_LOSS = "mass loss"
    """Several members were lost at one instant: of one group, on one of several machines, or while most members of their groups stayed."""
    CRASH_LOOP = "crash loop"
    ROLLING_RESTART = "rolling restart"
    INCOMPLETE_RESTART = "restart, incomplete"
    """A rolling restart after which the group has fewer members than before."""
    GROUP_RESTART = "group restart"
    """All members stopped, and started after that."""
    GROUP_STOP = "group stop"
    REASSIGNMENT_STORM = "reassignment storm"
    """Members join again and again, and nothing that they read has changed."""
    RESTART = "restart"
    LOST_MEMBER = "lost member"
    SLOW_CONSUMER = "slow consumer"
    FAILED_JOIN = "failed join"
    SCALING = "scaling"
    GROUP_START = "group start"
    TOPIC_CHANGE = "topic change"
    RECONFIGURATION = "reconfiguration"
    REJOIN = "rejoin"
    ADMIN = "administrator"
    BROKER = "broker"
    DUPLICATE_ID = "duplicate id"
    """Two processes use one instance id."""
    UNKNOWN = "unknown"


KINDS: Final = {
    Cause.COLD_START: IncidentKind.GROUP_START,
    Cause.JOIN_NEW: IncidentKind.SCALING,
    Cause.LEAVE_CLOSE: IncidentKind.SCALING,
    Cause.RESTART_DYNAMIC: IncidentKind.RESTART,
    Cause.STATIC_REJOIN: IncidentKind.RESTART,
    Cause.EXPIRE_HEARTBEAT: IncidentKind.LOST_MEMBER,
    Cause.POLL_TIMEOUT: IncidentKind.SLOW_CONSUMER,
    Cause.JOIN_TIMEOUT: IncidentKind.SLOW_CONSUMER,
    Cause.SYNC_TIMEOUT: IncidentKind.FAILED_JOIN,
    Cause.FAILED_JOIN: IncidentKind.FAILED_JOIN,
    Cause.TOPIC_CHANGE: IncidentKind.TOPIC_CHANGE,
    Cause.SUBSCRIPTION: IncidentKind.RECONFIGURATION,
    Cause.ASSIGNOR_CHANGE: IncidentKind.RECONFIGURATION,
    Cause.ENFORCED: IncidentKind.RECONFIGURATION,
    Cause.MIGRATION: IncidentKind.RECONFIGURATION,
    Cause.COOP_FOLLOWUP: IncidentKind.REJOIN,
    Cause.LEADER_REJOIN_SPURIOUS: IncidentKind.REJOIN,
    Cause.ADMIN: IncidentKind.ADMIN,
    Cause.CAPACITY: IncidentKind.BROKER,
    Cause.STORE_ERROR: IncidentKind.BROKER,
    Cause.COORDINATOR_MOVE: IncidentKind.COORDINATOR_MOVE,
    Cause.STATIC_FENCED: IncidentKind.DUPLICATE_ID,
}
"""The kind of a rebalance that stands alone."""
OF_ONE_MEMBER: Final = (IncidentKind.DUPLICATE_ID, IncidentKind.SLOW_CONSUMER, IncidentKind.LOST_MEMBER, IncidentKind.RESTART)
"""Kinds whose incidents are of one member each; the others go on with any member. Where several happen to one member next to each other, it
is the first of these."""
OF_THE_BROKER: Final = (IncidentKind.BROKER_OUTAGE, IncidentKind.COORDINATOR_MOVE, IncidentKind.BROKER)
"""Kinds of which no member is the culprit."""
INTENDED: Final = (IncidentKind.ROLLING_RESTART, IncidentKind.GROUP_RESTART, IncidentKind.GROUP_STOP)
"""Kinds that happen only when somebody wants it, whatever one of their rebalances looks like."""

LOSSES_AT_ONCE: Final = (Cause.EXPIRE_HEARTBEAT, Cause.COORDINATOR_MOVE)
INSTANT_MS: Final = 2_000
"""Losses that are no further apart happened at one instant: heartbeats of members differ by as much."""
RETURN_MS: Final = 20_000
"""Members that were lost at one instant have come back by then; what else a broker loses by then is of the same outage."""
OUTAGE_GROUPS_MIN: Final = 3
"""So many groups do not move one after the other by chance."""
PAUSE_MS: Final = 30_000
"""Rebalances further apart are of two incidents."""
FOLLOW_UP_MS: Final = 3_000
"""What begins so soon after a rebalance, and may have its cause, belongs to it."""
JOINED_MS: Final = 60_000
"""A member that fails to join has said that it joins no longer before."""
LOOP_MIN: Final = 4
"""A member that goes and comes back does so in one rebalance or in two: twice is a loop."""
STORM_MIN, STORM_PAUSE_MS = 5, 10_000
ASKED_FOR: Final = (Cause.ENFORCED, Cause.SUBSCRIPTION)
"""Causes that a client may make again and again."""
REPLACED_MIN: Final = 2
"""So many members that come and as many that go, one after the other, are a rolling restart under new names."""
PACE: Final = 3
"""So many times the longest pause before, and `PAUSE_MS`: a longer pause ends a deployment."""
STOPPED_MS: Final = 300_000
"""A group that starts by then after all of its members have left was restarted."""
STARTED_MS: Final = 10_000
"""Groups that start no further apart were started together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident. ended_ms: of the last stored assignment. culprits: members by name, in the order of their first rebalance.

    stopped_partition_seconds: None where no rebalance knows its cost. planned: None where that cannot be said; confidence: the lowest; both
    are of its rebalances with the commonest cause. advice: the one setting that would have avoided most of them, or None.
    """

    kind: IncidentKind
    groups: tuple[str, ...]
    culprits: tuple[str, ...]
    started_ms: int
    ended_ms: int
    stopped_partition_seconds: float | None
    planned: bool | None
    confidence: Confidence
    advice: SettingAdvice | None
    verdicts: tuple[Verdict, ...]

    @property
    def rebalances(self) -> int:
        """How many there were; neither those that static membership avoided count, nor members that were refused."""
        return sum(verdict.kind == REBALANCE for verdict in self.verdicts)

    @property
    def is_of_broker(self) -> bool:
        """Whether no member is to blame."""
        return self.kind in OF_THE_BROKER

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values (docs/diagnose.md)."""
        return {
            "kind": INCIDENT,
            "incident": self.kind.value,
            "groups": list(self.groups),
            "culprits": list(self.culprits),
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "rebalances": self.rebalances,
            "stopped_partition_seconds": self.stopped_partition_seconds,
            "planned": self.planned,
            "confidence": self.confidence.name.lower(),
            "advice": None if self.advice is None else self.advice._asdict(),
            "verdicts": [[verdict.group, verdict.generation, verdict.started_ms] for verdict in self.verdicts],
        }


INCIDENT: Final = "incident"
"""What stands for the kind of a verdict in the JSON of an incident."""


class _Run:
    """Verdicts that belong together, the first of them first. members: their names."""

    def __init__(self, kind: IncidentKind, verdicts: Iterable[Verdict]) -> None:
        self.kind = kind
        self.verdicts: list[Verdict] = []
        self.members: set[str | None] = set()
        self.ended_ms = 0
        self.add(verdicts)

    @property
    def started_ms(self) -> int:
        return self.verdicts[0].started_ms

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Take in more of them."""
        for verdict in verdicts:
            self.verdicts.append(verdict)
            self.members.add(_name(verdict))
            self.ended_ms = max(self.ended_ms, _end_ms(verdict))


def find_incidents(verdicts: Iterable[Verdict]) -> list[Incident]:
    """The incidents in the verdicts of any groups, by their first time; each verdict belongs to one."""
    everything = sorted(verdicts, key=lambda verdict: (verdict.started_ms, verdict.group))
    found = [_incident(run) for run in _losses_at_one_instant(everything)]
    by_group: dict[str, list[Verdict]] = {}
    for verdict in _without(everything, [each for incident in found for each in incident.verdicts]):
        by_group.setdefault(verdict.group, []).append(verdict)
    runs = [run for of_group in by_group.values() for run in _of_group(of_group)]
    found += [_incident(run) for run in _started_together(runs)]
    return sorted(found, key=lambda incident: (incident.started_ms, incident.groups))


def _without(verdicts: Sequence[Verdict], taken: Iterable[Verdict]) -> list[Verdict]:
    ids = set(map(id, taken))
    return [verdict for verdict in verdicts if id(verdict) not in ids]


def _losses_at_one_instant(verdicts: Sequence[Verdict]) -> list[_Run]:
    """Runs in which several members were lost at once. The verdicts are in the order of their times."""
    hosts = {verdict.who.client_host for verdict in verdicts if verdict.who is not None and verdict.who.client_host is not None}
    instants = [(kind, part) for losses in _instants(verdicts) for part in _parts(losses) if (kind := _kind_of_losses(part, len(hosts)))]
    taken: set[int] = {id(loss) for _, losses in instants for loss in losses}
    runs: list[_Run] = []
    at, last_ms = 0, 0
    for kind, losses in instants:
        while verdicts[at].started_ms < losses[0].started_ms:
            at += 1
        run = _Run(kind, sorted([*losses, *_returns(verdicts, at, kind, losses, taken)], key=_started_ms))
        before = runs[-1] if runs else run
        if before is not run and {kind, before.kind} <= set(OF_THE_BROKER) and losses[0].started_ms <= last_ms + RETURN_MS:
            before.kind = min(before.kind, kind, key=OF_THE_BROKER.index)
            before.add(run.verdicts)
            if len({verdict.group for verdict in before.verdicts}) >= OUTAGE_GROUPS_MIN:
                before.kind = IncidentKind.BROKER_OUTAGE
        else:
            runs.append(run)
        last_ms = losses[-1].started_ms
    return runs


def _instants(verdicts: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """Losses that began within one instant."""
    instant: list[Verdict] = []
    for verdict in filter(_is_loss, verdicts):
        if instant and verdict.started_ms > instant[0].started_ms + INSTANT_MS:
            yield instant
            instant = []
        instant.append(verdict)
    if instant:
        yield instant


def _parts(losses: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """The losses of an instant: those that may be the broker's, and those of members alone that happened at the same time."""
    if all(loss.cause is Cause.EXPIRE_HEARTBEAT for loss in losses):
        yield list(losses)
        return
    of_broker = [loss for loss in losses if _may_be_of_broker(loss)]
    yield of_broker
    if len(of_broker) < len(losses):
        yield _without(losses, of_broker)


def _may_be_of_broker(verdict: Verdict) -> bool:
    return Cause.COORDINATOR_MOVE in verdict.candidates


def _is_seen_by_broker(verdict: Verdict) -> bool:
    """Whether the broker's own words were read, which tell what it loses from what is lost by itself."""
    return not {Source.BROKER_LOG, Source.GROUP_EVENTS}.isdisjoint(verdict.sources)


def _kind_of_losses(losses: Sequence[Verdict], hosts: int) -> IncidentKind | None:
    """What losses of one instant are; None where they are of one member."""
    groups = {loss.group for loss in losses}
    of_loss = {loss.who.client_host for loss in losses if loss.who is not None and loss.who.client_host is not None}
    if any(loss.cause is Cause.COORDINATOR_MOVE for loss in losses):
        return IncidentKind.BROKER_OUTAGE if len(groups) > 1 else IncidentKind.COORDINATOR_MOVE
    if len(groups) == 1 and _lost_members(losses) < 2:
        return None
    is_known = all(map(_is_seen_by_broker, losses)) and not any(map(_may_be_of_broker, losses))
    is_of_members = len(groups) == 1 or is_known or (len(of_loss) == 1 and hosts > 1) or _most_stayed(losses)
    return IncidentKind.MASS_LOSS if is_of_members else IncidentKind.BROKER_OUTAGE


def _most_stayed(losses: Sequence[Verdict]) -> bool:
    """Whether each group kept most of its members: what is on the way to some of them, not the broker, has failed."""
    counts = [(loss.members_before, loss.members_after) for loss in losses]
    return all(before is not None and after is not None and 2 * after >= before > 0 for before, after in counts)


def _returns(verdicts: Sequence[Verdict], at: int, kind: IncidentKind, losses: Sequence[Verdict], taken: set[int]) -> list[Verdict]:
    """What comes back to the groups of these losses, from a place in all verdicts on; it is taken then."""
    is_of_broker = kind in OF_THE_BROKER and any(loss.cause is Cause.COORDINATOR_MOVE for loss in losses)
    groups, away = {loss.group for loss in losses}, {(loss.group, _name(loss)) for loss in losses}
    last_ms = losses[-1].started_ms + RETURN_MS
    found = []
    while at < len(verdicts) and verdicts[at].started_ms <= last_ms:
        each = verdicts[at]
        at += 1
        member = each.group, _name(each)
        is_of_all = each.cause in (Cause.COORDINATOR_MOVE, Cause.COLD_START)
        is_back = each.cause is Cause.EXPIRE_HEARTBEAT and not _is_loss(each)
        is_return = is_of_all or (_may_be_of_broker(each) if is_of_broker else is_back)
        if id(each) not in taken and each.group in groups and is_return and each.kind != AVOIDED:
            taken.add(id(each))
            found.append(each)
            if not is_of_all:
                away.discard(member)  # what happens to it from now on is something else
    return found


def _is_loss(verdict: Verdict) -> bool:
    """Whether members went, or lost their coordinator: not the return of one."""
    before, after = verdict.members_before, verdict.members_after
    is_return = verdict.cause is Cause.EXPIRE_HEARTBEAT and before is not None and after is not None and after >= before
    return verdict.cause in LOSSES_AT_ONCE and verdict.kind != AVOIDED and not is_return


def _lost_members(verdicts: Sequence[Verdict]) -> int:
    """How many members were lost: by name, or by the size of the group, where one rebalance removed several."""
    expired = [verdict for verdict in verdicts if verdict.cause is Cause.EXPIRE_HEARTBEAT]
    fewer = [(verdict.members_before or 0) - (verdict.members_after or 0) for verdict in expired if verdict.members_after is not None]
    return max([len({_name(each) for each in expired}), *fewer])


def _of_group(verdicts: list[Verdict]) -> list[_Run]:
    """The runs of one group."""
    found: list[_Run] = []

    def take(kind: IncidentKind, taken: Sequence[Verdict]) -> None:
        found.append(_Run(kind, list(taken)))
        verdicts[:] = _without(verdicts, taken)

    rejoins = [each for each in verdicts if _kind(each) is IncidentKind.REJOIN or each.cause in ASKED_FOR]
    for run in _runs(rejoins, lambda _: None, STORM_PAUSE_MS):
        if len(run) >= STORM_MIN and len(set(map(_name, run))) <= len(run) / 2:
            take(IncidentKind.REASSIGNMENT_STORM, run)
    crashes = [each for each in verdicts if each.cause in (Cause.RESTART_DYNAMIC, Cause.EXPIRE_HEARTBEAT) and _name(each) is not None]
    for run in _runs(crashes, _name, PAUSE_MS):
        is_alone = not any(run[0].started_ms < each.started_ms < _end_ms(run[-1]) and _name(each) != _name(run[0]) for each in crashes)
        if (sum(map(_moves, run)) if is_alone else len(run)) >= LOOP_MIN:
            take(IncidentKind.CRASH_LOOP, run)
    for deployment in find_deployments(verdicts):
        for restarts in _once_each(deployment):
            take(_kind_of_restarts(restarts), restarts)
    runs = [_Run(_kind(run[0]), run) for run in _runs(verdicts, _what, PAUSE_MS)]
    return _restarts_of_all(found + [_replaced(run) for run in _joined(runs)])


def _moves(verdict: Verdict) -> int:
    """Whether the member went or came in this rebalance, or both."""
    is_same_size = verdict.members_before == verdict.members_after is not None
    is_both = verdict.cause is Cause.RESTART_DYNAMIC and (is_same_size or STILL_LISTED in verdict.rules)
    return 2 if is_both else 1


def _once_each(deployment: Deployment) -> list[list[Verdict]]:
    """The deployments in this one: none restarts a client again."""
    found: list[list[Verdict]] = []
    seen: set[str | None] = set()
    for verdict in deployment.verdicts:
        name = _name(verdict)
        is_again = name in seen and not _comes_back(found[-1], verdict)
        if not found or _is_whole_again(found[-1]) or is_again or _is_pause(found[-1], verdict):
            found.append([])
            seen = set()
        seen.add(name)
        found[-1].append(verdict)
    return [restarts for restarts in found if len({_name(each) for each in restarts}) > 1]


def _is_pause(restarts: Sequence[Verdict], verdict: Verdict) -> bool:
    """Whether it comes much later than these followed each other: a deployment goes on at about one pace."""
    pauses = [after.started_ms - _end_ms(before) for before, after in zip(restarts, [*restarts[1:], verdict], strict=True)]
    return pauses[-1] > PAUSE_MS + PACE * max(pauses[:-1], default=pauses[-1])


def _is_whole_again(restarts: Sequence[Verdict]) -> bool:
    """Whether all members had stopped, and are back."""
    return restarts[-1].members_after == restarts[0].members_before and any(each.members_after == 0 for each in restarts)


def _comes_back(restarts: Sequence[Verdict], verdict: Verdict) -> bool:
    """Whether a client that has gone in one of these restarts comes back, or others go or come with it."""
    if verdict.members_before == 0 or verdict.members_after == 0 or restarts[-1].members_after == 0:
        return True
    last = next(each for each in reversed(restarts) if _name(each) == _name(verdict))
    went = (last.members_after or 0) < (last.members_before or 0)
    return went and (verdict.members_after or 0) > (verdict.members_before or 0)


def _kind_of_restarts(restarts: Sequence[Verdict]) -> IncidentKind:
    first, last = restarts[0], restarts[-1]
    if any(verdict.members_after == 0 for verdict in restarts[:-1]):
        return IncidentKind.GROUP_RESTART
    is_complete = (last.members_after or 0) >= (first.members_before or 0)
    return IncidentKind.ROLLING_RESTART if is_complete else IncidentKind.INCOMPLETE_RESTART


def _replaced(run: _Run) -> _Run:
    """The run, under the name of a rolling restart where as many members have come as have gone, or of a stop where all have gone."""
    if run.kind is not IncidentKind.SCALING:
        return run
    steps = [(each.members_after or 0) - (each.members_before or 0) for each in run.verdicts]
    came, went = sum(step > 0 for step in steps), sum(step < 0 for step in steps)
    if run.verdicts[-1].members_after == 0:
        return _Run(IncidentKind.GROUP_STOP, run.verdicts)
    is_replaced = min(came, went) >= REPLACED_MIN and sum(steps) == 0
    return _Run(IncidentKind.ROLLING_RESTART, run.verdicts) if is_replaced else run


def _restarts_of_all(runs: list[_Run]) -> list[_Run]:
    """The runs of a group, where a stop and the start after it are one."""
    found: list[_Run] = []
    stop: _Run | None = None
    for run in sorted(runs, key=lambda run: run.started_ms):
        if stop is not None and run.kind is IncidentKind.GROUP_START and run.started_ms - stop.ended_ms <= STOPPED_MS:
            stop.kind = IncidentKind.GROUP_RESTART
            stop.add(run.verdicts)
            continue
        found.append(run)
        stop = run if run.kind is IncidentKind.GROUP_STOP else None
    return found


def _started_together(runs: Iterable[_Run]) -> list[_Run]:
    """The runs of all groups, where the starts of groups at about one time are one."""
    found: list[_Run] = []
    start: _Run | None = None
    for run in sorted(runs, key=lambda run: run.started_ms):
        if run.kind is not IncidentKind.GROUP_START:
            found.append(run)
        elif start is not None and run.started_ms - start.verdicts[-1].started_ms <= STARTED_MS:
            start.add(run.verdicts)
        else:
            start = run
            found.append(run)
    return found


def _kind(verdict: Verdict) -> IncidentKind:
    return KINDS.get(verdict.cause, IncidentKind.UNKNOWN)


def _what(verdict: Verdict) -> tuple[IncidentKind, str | None]:
    kind = _kind(verdict)
    return kind, _name(verdict) if kind in OF_ONE_MEMBER else None


def _joined(runs: Iterable[_Run]) -> list[_Run]:
    """The runs of a group, where those that belong together are one."""
    found: list[_Run] = []
    for run in sorted(runs, key=lambda run: run.started_ms):
        own = []
        for verdict in run.verdicts:
            lead = next((each for each in reversed(found[-LEADS_MAX:]) if _is_follow_up(verdict, run.kind, each)), None)
            if lead is None:
                own.append(verdict)
            else:
                lead.add([verdict])
        if not own:
            continue
        run = _Run(run.kind, own)
        lead = next((each for each in reversed(found[-LEADS_MAX:]) if _is_of_same_member(run, each)), None)
        if lead is None:
            found.append(run)
        else:
            lead.kind = _leading(lead.kind, run.kind)
            lead.add(run.verdicts)
    return found


LEADS_MAX: Final = 8
"""Runs of a group that are looked at: more do not go on at one time."""


def _is_follow_up(verdict: Verdict, kind: IncidentKind, lead: _Run) -> bool:
    """Whether a verdict belongs to what it follows: a needless rejoin, a further member of a group that starts, or what may be the same."""
    if not lead.started_ms <= verdict.started_ms <= lead.ended_ms + FOLLOW_UP_MS or verdict.cause is Cause.LEAVE_CLOSE:
        return False
    if kind is IncidentKind.REJOIN:
        return lead.kind is not IncidentKind.REJOIN
    if kind is IncidentKind.SCALING and lead.kind is IncidentKind.GROUP_START:
        return True
    is_unsure = verdict.confidence < Confidence.HIGH and kind is not lead.kind and lead.kind not in OF_ONE_MEMBER
    return is_unsure and any(each.cause in verdict.candidates for each in lead.verdicts)


def _is_of_same_member(run: _Run, before: _Run) -> bool:
    """Whether a run goes on with what happened to its member before: a member that joins may change the assignor, or fail to join."""
    if None in run.members or len(run.members) > 1 or not run.members <= before.members:
        return False
    if run.kind is IncidentKind.RECONFIGURATION and before.kind is IncidentKind.SCALING:
        return run.started_ms - before.ended_ms <= FOLLOW_UP_MS
    if before.members != run.members:
        return False
    if run.kind is IncidentKind.FAILED_JOIN and before.kind is IncidentKind.SCALING:
        return run.started_ms - before.ended_ms <= JOINED_MS
    goes_on = before.kind in OF_ONE_MEMBER and (before.kind is not IncidentKind.DUPLICATE_ID or run.kind is IncidentKind.RESTART)
    return run.kind in OF_ONE_MEMBER and goes_on and run.started_ms - before.ended_ms <= RETURN_MS


def _leading(one: IncidentKind, other: IncidentKind) -> IncidentKind:
    return min(one, other, key=OF_ONE_MEMBER.index) if one in OF_ONE_MEMBER else other


def _runs(verdicts: Sequence[Verdict], key: Callable[[Verdict], object], pause_ms: int) -> list[list[Verdict]]:
    """Verdicts of one key that follow each other without a longer pause, in the order of their first."""
    found: list[list[Verdict]] = []
    last: dict[object, list[Verdict]] = {}
    for verdict in verdicts:
        run = last.get(key(verdict))
        if run is None or verdict.started_ms - _end_ms(run[-1]) > pause_ms:
            run = last[key(verdict)] = []
            found.append(run)
        run.append(verdict)
    return found


def _incident(run: _Run) -> Incident:
    verdicts, kind = sorted(run.verdicts, key=_started_ms), run.kind
    costs = [each.cost.stopped_partition_seconds for each in verdicts if each.cost.stopped_partition_seconds is not None]
    names = [name for name in map(_name, verdicts) if name is not None]
    own = [verdict for verdict in verdicts if _kind(verdict) is kind] or verdicts
    ((cause, _),) = Counter(verdict.cause for verdict in own).most_common(1)
    planned = {True} if kind in INTENDED else {verdict.planned for verdict in verdicts if verdict.cause is cause}
    advised = [each.advice[0] for each in verdicts if each.avoidable and each.advice and each.advice[0].value is not None]
    # The settings of lost members do not help against what happens to all of them at once.
    is_of_members = kind not in (*OF_THE_BROKER, IncidentKind.MASS_LOSS)
    return Incident(
        kind=kind,
        groups=tuple(dict.fromkeys(verdict.group for verdict in verdicts)),
        culprits=() if kind in OF_THE_BROKER else tuple(dict.fromkeys(names)),
        started_ms=verdicts[0].started_ms,
        ended_ms=run.ended_ms,
        stopped_partition_seconds=round(sum(costs), 3) if costs else None,
        planned=False if False in planned else None if None in planned else True,
        confidence=min(verdict.confidence for verdict in verdicts if verdict.cause is cause),
        advice=_commonest(advised) if is_of_members else None,
        verdicts=tuple(verdicts),
    )


def _commonest(advised: Sequence[SettingAdvice]) -> SettingAdvice | None:
    """The advice for the setting that most of them are about, with its greatest value."""
    if not advised:
        return None
    names = [advice.setting for advice in advised]
    name = max(dict.fromkeys(names), key=names.count)
    return max((advice for advice in advised if advice.setting == name), key=_number)


def _number(advice: SettingAdvice) -> int:
    return int(advice.value) if advice.value is not None and advice.value.isdecimal() else -1


def _name(verdict: Verdict) -> str | None:
    return None if verdict.who is None else verdict.who.name


def _started_ms(verdict: Verdict) -> int:
    return verdict.started_ms


def _end_ms(verdict: Verdict) -> int:
    return verdict.started_ms if verdict.ended_ms is None else verdict.ended_ms
