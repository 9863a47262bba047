"""The topics of regular expressions: looked up beside the heartbeats, all expressions of a group together, one lookup at a time.

A lookup runs in pieces, by the group's timer, so that many topics do not hold up other requests. Its result is recorded for every
expression; the group epoch is increased if the topics of one changed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ottla.groups.consumer.epochs import Bump, bump_epoch
from ottla.groups.consumer.group import ConsumerGroup, find_consumer_group
from ottla.groups.consumer.group_state import REGEX, ResolvedRegex, SubscriptionCounts
from ottla.groups.consumer.patterns import compile_pattern
from ottla.groups.events import TriggerCode
from ottla.groups.group import CommandContext
from ottla.protocol.coordinator_records import ConsumerGroupRegularExpressionValue

REFRESH_INTERVAL_MS_MIN: Final = 10_000
"""Between two lookups of one group."""
MATCHES_PER_STEP: Final = 2_000
"""A topic against an expression; at least one topic."""
STEP_DELAY_MS: Final = 1


@dataclass(slots=True)
class RegexResolution:
    """A lookup that is under way: the topics that are left, and what was found so far."""

    names: Iterator[str]
    patterns: Mapping[str, object]
    version: int
    started_at_ms: int
    may_describe: Callable[[str], bool] | None
    found: dict[str, set[str]] = field(default_factory=dict)
    scanned: int = 0


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
        names=iter(tuple(topics.topics)),
        patterns={regex: compile_pattern(regex) for regex in subscriptions.regexes},
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
    names = list(islice(resolution.names, max(1, MATCHES_PER_STEP // len(resolution.patterns))))
    resolution.scanned += len(names)
    for name in names:
        for regex, pattern in resolution.patterns.items():
            if pattern.fullmatch(name) and (resolution.may_describe is None or resolution.may_describe(name)):  # type: ignore[attr-defined]
                resolution.found.setdefault(regex, set()).add(name)
    if names:
        context.arm(group.resolution_timer, STEP_DELAY_MS)
        return
    group.resolution = None
    group.resolved_version = resolution.version
    durable = group.durable
    shown, took_ms = ", ".join(resolution.patterns), context.now_ms - resolution.started_at_ms
    context.log(f"[GroupId {group_id}] Scanned {resolution.scanned} topics to refresh regular expressions [{shown}] in {took_ms}ms.")
    resolved, changed = dict(durable.regexes), []
    for regex in resolution.patterns:
        if regex not in durable.subscriptions.regexes:
            continue
        topics = frozenset(resolution.found.get(regex, ()))
        old = resolved.get(regex)
        if topics != (old.topics if old is not None else frozenset()):
            changed.append(regex)
        resolved[regex] = ResolvedRegex(topics, resolution.version, resolution.started_at_ms)
        value = ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(topics)), version=resolution.version, timestamp_ms=resolution.started_at_ms
        )
        context.records.append(group.record(REGEX, regex, value))
    bumps = []
    if changed:
        reason = f"the topics of {len(changed)} regular expressions changed"
        bumps.append(Bump(code=TriggerCode.REGEX_CHANGE, reason=reason, evidence={"regexes": len(changed)}))
    bump_epoch(context, group, bumps, durable.subscriptions, resolved)
