"""Rules for alerts about groups, and which of them hold: an alert fires once when its condition becomes true, and once when it ends.

    lag > 10000 for 60s of payments-*        records, over all partitions of a group
    lag > 5m                                 the age of the next record of the partition that waits longest
    incident lost member                     an incident of this kind is open; without a kind: any that was not planned
    unplanned rebalances > 3 in 10m
    no members for 30s                       of a group that had some
    members < 3 for 1m of orders             the same with fewer than so many
    stuck for 2m                             the lag of a partition grows, there are members, and none commits
    unreachable for 1m                       the cluster does not respond

No I/O and no clock: the caller gives the facts and the time, and keeps `firing`, so that a restart repeats nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from ottla.history.incidents import Incident, IncidentKind
from ottla.history.times import parse_duration_ms
from ottla.protocol.model import TopicPartition
from ottla.text import printable


class Condition(StrEnum):
    """What a rule is about."""

    LAG = "lag"
    TIME_LAG = "time lag"
    INCIDENT = "incident"
    UNPLANNED = "unplanned rebalances"
    NO_MEMBERS = "no members"
    FEW_MEMBERS = "members"
    STUCK = "stuck"
    UNREACHABLE = "unreachable"


FORMS: Final = (
    'write "lag > 10000 for 60s", "lag > 5m", "incident lost member", "unplanned rebalances > 3 in 10m", "no members for 30s", '
    '"members < 3 for 1m", "stuck for 2m" or "unreachable for 1m", and "of GROUP" behind it for some groups only'
)
STUCK_MS: Final = 60_000
"""How long a group is stuck before it is said, where the rule names no time."""

_RULE: Final = re.compile(
    r"(?:(?P<lag>lag)\s*>\s*(?P<lag_above>\d+\s*[a-z]*)"
    r"|(?P<unplanned>unplanned rebalances)\s*>\s*(?P<count>\d+)\s+in\s+(?P<within>\d+\s*[a-z]+)"
    r"|(?P<members>members)\s*<\s*(?P<below>\d+)"
    r"|(?P<plain>no members|stuck|unreachable)"
    r"|(?P<incident>incident)(?:\s+(?P<kind>(?!for\s|of\s)\S.*?))?)"
    r"(?:\s+for\s+(?P<for>\d+\s*[a-z]+))?(?:\s+of\s+(?P<group>\S.*))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. `text` is as it was written, and names it. `group`: a pattern as of a shell."""

    text: str
    condition: Condition
    above: int = 0
    below: int = 1
    within_ms: int = 0
    for_ms: int = 0
    kind: IncidentKind | None = None
    group: str = "*"


def parse_rule(text: str) -> Rule:
    """The rule of a text. Raises ValueError with what to write instead."""
    matched = _RULE.fullmatch(text.strip())
    if matched is None:
        raise ValueError(f"{text!r} is no rule: {FORMS}")
    condition, above, below, within_ms, kind = Condition.INCIDENT, 0, 1, 0, None
    if matched["lag"]:
        is_number = matched["lag_above"].isdecimal()
        condition = Condition.LAG if is_number else Condition.TIME_LAG
        above = int(matched["lag_above"]) if is_number else parse_duration_ms(matched["lag_above"])
    elif matched["unplanned"]:
        condition, above, within_ms = Condition.UNPLANNED, int(matched["count"]), parse_duration_ms(matched["within"])
    elif matched["members"]:
        condition, below = Condition.FEW_MEMBERS, int(matched["below"])
    elif matched["plain"]:
        condition = Condition(matched["plain"])
    elif matched["kind"]:
        kind = _kind(matched["kind"])
    if matched["for"] and condition in (Condition.INCIDENT, Condition.UNPLANNED):
        raise ValueError(f'{text!r}: "for" belongs to lag, members, stuck and unreachable')
    if matched["group"] and condition is Condition.UNREACHABLE:
        raise ValueError(f'{text!r}: "of" names groups, and unreachable is about the cluster')
    for_ms = parse_duration_ms(matched["for"]) if matched["for"] else STUCK_MS if condition is Condition.STUCK else 0
    return Rule(
        text=text.strip(),
        condition=condition,
        above=above,
        below=below,
        within_ms=within_ms,
        for_ms=for_ms,
        kind=kind,
        group=matched["group"] or "*",
    )


def _kind(text: str) -> IncidentKind:
    try:
        return IncidentKind(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no kind of incident: there are {', '.join(IncidentKind)}") from error


class PartitionFacts(NamedTuple):
    """A committed offset, and how many records are behind it."""

    committed: int
    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group at one look; None where something is not known. had_members: now or earlier. unplanned_ms: when its rebalances that were
    not planned began, by the caller's clock. incidents: the open ones."""

    members: int
    had_members: bool
    lag: int | None = None
    lag_ms: int | None = None
    partitions: Mapping[TopicPartition, PartitionFacts] = field(default_factory=dict)
    unplanned_ms: Sequence[int] = ()
    incidents: Sequence[Incident] = ()


class Holds(NamedTuple):
    """Whether a condition holds (None: that is not known, and nothing changes), in words, and its figures. `offsets`: see `Firing`."""

    is_true: bool | None
    text: str = ""
    details: Mapping[str, Any] = {}
    offsets: Mapping[TopicPartition, int] = {}


UNKNOWN: Final = Holds(None)
Name = tuple[str, str]
"""Of an alert: the text of its rule, and the group ("" for the cluster)."""


class Firing(NamedTuple):
    """Since when an alert fires. `offsets`: of a stuck group, the partitions that stood still then with their committed offsets."""

    since_ms: int
    offsets: Mapping[TopicPartition, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertEvent:
    """An alert that fires or ends. `id` is the same for both, and for no other alert."""

    rule: str
    group: str
    is_firing: bool
    since_ms: int
    at_ms: int
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The same in every delivery of this alert."""
        return f"{self.rule}/{self.group}/{self.since_ms}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values (docs/watch.md)."""
        return {
            "id": self.id,
            "status": "firing" if self.is_firing else "resolved",
            "rule": self.rule,
            "group": self.group or None,
            "since_ms": self.since_ms,
            "at_ms": self.at_ms,
            "text": self.text,
            "details": dict(self.details),
        }


class _Standstill(NamedTuple):
    """A partition whose committed offset stays the same: since when, and its lag then."""

    committed: int
    since_ms: int
    lag: int


class Alerts:
    """The alerts of one cluster. `firing`: at first those of the run before; of other rules than these they are forgotten."""

    def __init__(self, rules: Sequence[Rule], firing: Mapping[Name, Firing] | None = None) -> None:
        self.rules = tuple(rules)
        texts = {rule.text for rule in rules}
        self.firing: dict[Name, Firing] = {name: each for name, each in (firing or {}).items() if name[0] in texts}
        self._pending: dict[Name, int] = {}
        self._standstills: dict[str, dict[TopicPartition, _Standstill]] = {}

    def evaluate(self, now_ms: int, groups: Mapping[str, GroupFacts | None]) -> list[AlertEvent]:
        """What fires and what ends after a look. A group of which nothing is known (None) stays as it is; a missing one is gone."""
        self._follow_commits(now_ms, groups)
        found: list[AlertEvent] = []
        for rule in self.rules:
            if rule.condition is Condition.UNREACHABLE:
                found += self._decide(rule, "", Holds(False, "the cluster responds"), now_ms)
                continue
            gone = {group for text, group in self.firing if text == rule.text} - groups.keys()
            found += [event for group in sorted(gone) for event in self._decide(rule, group, Holds(False, "the group is gone"), now_ms)]
            for group, facts in groups.items():
                if facts is not None and fnmatchcase(group, rule.group):
                    found += self._decide(rule, group, self._holds(rule, group, facts, now_ms), now_ms)
        return found

    def evaluate_unreachable(self, now_ms: int, problem: str) -> list[AlertEvent]:
        """What fires when a look has failed: of the groups nothing is known."""
        of_cluster = [rule for rule in self.rules if rule.condition is Condition.UNREACHABLE]
        return [event for rule in of_cluster for event in self._decide(rule, "", Holds(True, problem), now_ms)]

    def _holds(self, rule: Rule, group: str, facts: GroupFacts, now_ms: int) -> Holds:
        match rule.condition:
            case Condition.LAG:
                return _is_above(facts.lag, rule.above, "the lag is {:,.0f}", "lag")
            case Condition.TIME_LAG:
                return _is_above(facts.lag_ms, rule.above, "the next record has waited {:,.0f} ms", "lag_ms")
            case Condition.INCIDENT:
                return _is_open(rule, facts)
            case Condition.UNPLANNED:
                count = sum(now_ms - at_ms <= rule.within_ms for at_ms in facts.unplanned_ms)
                return Holds(count > rule.above, f"{count} unplanned rebalances in {rule.within_ms // 1000:,} s", {"rebalances": count})
            case Condition.NO_MEMBERS | Condition.FEW_MEMBERS:
                text = f"members: {facts.members}" if facts.members else "the group has no members"
                # A group that only commits has never had any. After a restart that is not known of one whose alert fires.
                had_members = facts.had_members or (rule.text, group) in self.firing
                return Holds(had_members and facts.members < rule.below, text, {"members": facts.members})
            case _:
                return self._is_stuck(rule, group, facts, now_ms)

    def _decide(self, rule: Rule, group: str, holds: Holds, now_ms: int) -> list[AlertEvent]:
        name = (rule.text, group)
        firing = self.firing.get(name)
        if holds.is_true is False:
            self._pending.pop(name, None)
            self.firing.pop(name, None)
            return [] if firing is None else [_event(rule, group, holds, firing.since_ms, now_ms, is_firing=False)]
        if holds.is_true is None or firing is not None:
            return []
        # A group that is stuck has been for the rule's time.
        if rule.condition is not Condition.STUCK and now_ms - self._pending.setdefault(name, now_ms) < rule.for_ms:
            return []
        self._pending.pop(name, None)
        self.firing[name] = Firing(now_ms, holds.offsets)
        return [_event(rule, group, holds, now_ms, now_ms, is_firing=True)]

    def _follow_commits(self, now_ms: int, groups: Mapping[str, GroupFacts | None]) -> None:
        """Note since when each partition with lag has the same committed offset."""
        if not any(rule.condition is Condition.STUCK for rule in self.rules):
            return
        for group in self._standstills.keys() - groups.keys():
            del self._standstills[group]
        for group, facts in groups.items():
            if facts is None or facts.lag is None:
                continue
            before, now = self._standstills.get(group, {}), {}
            for partition, (committed, lag) in facts.partitions.items():
                known = before.get(partition)
                is_still = known is not None and known.committed == committed and lag > 0 and facts.members > 0
                now[partition] = known if known is not None and is_still else _Standstill(committed, now_ms, lag)
            self._standstills[group] = now

    def _is_stuck(self, rule: Rule, group: str, facts: GroupFacts, now_ms: int) -> Holds:
        if facts.lag is None:
            return UNKNOWN
        firing = self.firing.get((rule.text, group))
        if firing is not None:
            # It ends with a commit, not when its lag does not grow for a while.
            now = {each: facts.partitions[each] for each in firing.offsets if each in facts.partitions}
            still = any(committed == firing.offsets[each] and lag > 0 for each, (committed, lag) in now.items())
            return UNKNOWN if still and facts.members else Holds(False, "the group commits, has no lag, or has no members")
        standstills = self._standstills[group]
        stuck = sorted(
            partition
            for partition, (_, lag) in facts.partitions.items()
            if now_ms - standstills[partition].since_ms >= rule.for_ms and lag > standstills[partition].lag
        )
        names = [f"{printable(each.topic)}-{each.partition}" for each in stuck]
        text = f"no commit while the lag grows in {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return Holds(bool(stuck), text, {"partitions": names[:100]}, {each: facts.partitions[each].committed for each in stuck})


def _is_above(value: int | None, above: int, text: str, name: str) -> Holds:
    return UNKNOWN if value is None else Holds(value > above, text.format(value), {name: value})


def _is_open(rule: Rule, facts: GroupFacts) -> Holds:
    meant = [each for each in facts.incidents if each.kind is rule.kind or (rule.kind is None and each.planned is False)]
    if not meant:
        return Holds(False, "no such incident is open any more")
    incident = meant[-1]
    of = f" of {', '.join(map(printable, incident.culprits))}" if incident.culprits else ""
    figures = {
        "kind": incident.kind.value,
        "groups": list(incident.groups),
        "culprits": list(incident.culprits),
        "started_ms": incident.started_ms,
        "planned": incident.planned,
        "confidence": incident.confidence.name.lower(),
        "rebalances": incident.rebalances,
    }
    return Holds(True, f"{incident.kind.value}{of} (confidence {figures['confidence']})", figures)


def _event(rule: Rule, group: str, holds: Holds, since_ms: int, now_ms: int, *, is_firing: bool) -> AlertEvent:
    return AlertEvent(
        rule=rule.text, group=group, is_firing=is_firing, since_ms=since_ms, at_ms=now_ms, text=holds.text, details=holds.details
    )


def encode_firing(firing: Mapping[Name, Firing]) -> list[dict[str, Any]]:
    """JSON-ready values of what fires."""
    return [
        {"rule": rule, "group": group, "since_ms": since_ms, "offsets": [[*each, offset] for each, offset in offsets.items()]}
        for (rule, group), (since_ms, offsets) in firing.items()
    ]


def decode_firing(items: Any) -> dict[Name, Firing]:
    """The same back. Raises ValueError, TypeError or KeyError."""
    return {
        (str(item["rule"]), str(item["group"])): Firing(
            int(item["since_ms"]), {TopicPartition(str(topic), int(number)): int(offset) for topic, number, offset in item["offsets"]}
        )
        for item in items
    }
