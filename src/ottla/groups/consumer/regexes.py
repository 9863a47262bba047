"""The topics of regular expressions: looked up beside the heartbeats, all expressions of a group together, one lookup at a time.

A lookup runs in pieces, by the group's timer, so that many topics, expressions or states of one do not hold up other requests; one
expression is compiled at a time. Its result is recorded for every expression; the group epoch is increased if the topics of one changed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.groups.consumer.epochs import Bump, bump_epoch, member_bump
from ottla.groups.consumer.group import ConsumerGroup, find_consumer_group
from ottla.groups.consumer.group_state import REGEX, ResolvedRegex, SubscriptionCounts
from ottla.groups.consumer.patterns import InvalidPattern, compile_pattern
from ottla.groups.events import TriggerCode
from ottla.groups.group import CommandContext
from ottla.protocol.coordinator_records import ConsumerGroupRegularExpressionValue

REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""Between two lookups of one group."""
WORK_PER_STEP: Final = 1_000_000
"""States of an expression times characters, which are what a match takes at worst: a few milliseconds; at least one match."""
WORK_PER_CHARACTER: Final = 200
"""Of an expression that is compiled."""
STEP_DELAY_MS: Final = 1
SHOWN_CHARACTERS_MAX: Final = 1_000
"""Of the expressions in a log line."""


@dataclass(slots=True)
class RegexResolution:
    """A lookup that is under way: the expressions that are left, topics of the present one, and what was found so far."""

    names: tuple[str, ...]
    regexes: list[str]
    version: int
    started_at_ms: int
    may_describe: Callable[[str], bool] | None
    found: dict[str, list[str]] = field(default_factory=dict)
    pattern: Any = None
    at: int = 0
    """Of the next topic in `names`."""

    def step(self, context: CommandContext, group_id: str) -> bool:
        """Match until there was enough work; returns whether there is more."""
        left = WORK_PER_STEP
        while self.regexes and left > 0:
            regex = self.regexes[-1]
            if self.pattern is None:
                left -= WORK_PER_CHARACTER * len(regex)
                try:
                    self.pattern, self.found[regex], self.at = compile_pattern(regex), [], 0
                except InvalidPattern as error:
                    # Of a log that another broker wrote.
                    context.log(f"[GroupId {group_id}] Couldn't parse regular expression '{regex}' due to `{error}`. Ignoring.")
                    self.regexes.pop()
            elif self.at == len(self.names):
                self.pattern = None
                self.regexes.pop()
            else:
                name = self.names[self.at]
                self.at += 1
                left -= self.pattern.programsize * len(name)
                if self.pattern.fullmatch(name) and (self.may_describe is None or self.may_describe(name)):
                    self.found[regex].append(name)
        return bool(self.regexes)


def start_resolution(
    context: CommandContext,
    group: ConsumerGroup,
    subscriptions: SubscriptionCounts,
    *,
    is_new: bool,
    may_describe: Callable[[str], bool] | None,
) -> None:
    """Start a lookup if one is due and none is under way."""
    topics = context.state.topics
    if not subscriptions.regexes or group.resolution is not None:
        return
    # What this request has just removed counts, as in Kafka: a member that changes its expression again waits, too.
    resolved = group.durable.regexes
    last_ms = max((each.at_ms for each in resolved.values()), default=None)
    if last_ms is not None and context.now_ms <= last_ms + REFRESH_INTERVAL_MS_MIN:
        return
    refresh_ms = context.settings.consumer_regex_refresh_interval_ms
    if not (
        is_new
        or last_ms is None
        or len(subscriptions.regexes) != len(resolved)
        or group.resolved_version is None
        or group.resolved_version < topics.topics_created_version
        or context.now_ms > last_ms + refresh_ms
    ):
        return
    group.resolution = RegexResolution(
        names=tuple(topics.topics),
        regexes=list(reversed(subscriptions.regexes)),
        version=topics.topics_version,
        started_at_ms=context.now_ms,
        may_describe=may_describe,
    )
    context.arm(group.resolution_timer, STEP_DELAY_MS)


def resolve_regexes(context: CommandContext, group_id: str) -> None:
    """Look at the next topics; after the last ones, record the result."""
    group = find_consumer_group(context.state, group_id)
    if group is None or group.resolution is None:
        return
    resolution: RegexResolution = group.resolution
    if resolution.step(context, group_id):
        context.arm(group.resolution_timer, STEP_DELAY_MS)
        return
    group.resolution = None
    group.resolved_version = resolution.version
    durable = group.durable
    shown, took_ms = ", ".join(resolution.found)[:SHOWN_CHARACTERS_MAX], context.now_ms - resolution.started_at_ms
    context.log(f"[GroupId {group_id}] Scanned {len(resolution.names)} topics to refresh regular expressions [{shown}] in {took_ms}ms.")
    resolved, changed = dict(durable.regexes), []
    for regex, names in resolution.found.items():
        if regex not in durable.subscriptions.regexes:
            continue
        topics = frozenset(names)
        old = resolved.get(regex)
        if topics != (old.topics if old is not None else frozenset()):
            changed.append(regex)
        resolved[regex] = ResolvedRegex(topics, resolution.version, resolution.started_at_ms)
        value = ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(topics)), version=resolution.version, timestamp_ms=resolution.started_at_ms
        )
        context.records.append(group.record(REGEX, regex, value))
    bumps, explained = [], set()
    for member in durable.members.values():
        timers = group.timers_of(member.member_id)
        if member.regex in resolution.found and timers.since_regex is not None:
            if member.regex in changed or resolved[member.regex].topics:
                bumps.append(member_bump(timers.since_regex, member, {"regexes": 1}))
                explained.add(member.regex)
            timers.since_regex = None
    unexplained = [regex for regex in changed if regex not in explained]
    if unexplained:
        reason = f"the topics of {len(unexplained)} regular expressions changed"
        bumps.append(Bump(code=TriggerCode.REGEX_CHANGE, reason=reason, evidence={"regexes": len(unexplained)}))
    if not changed:
        bumps = []
    bump_epoch(context, group, bumps, durable.subscriptions, resolved)
