"""Finds settings that contradict each other, as Kafka checks them at start and at a change, and some checks of this broker's own."""

from collections.abc import Callable
from typing import Final

from ottla.config.broker_settings import CONSUMER_ASSIGNORS
from ottla.config.connection_overrides import connection_overrides
from ottla.config.security_settings import handler_problem
from ottla.config.setting import shown
from ottla.config.value_grammar import parse_list, parse_whole

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_CLEANER_TABLE_BYTES_MIN: Final = 1024 * 1024
_MIN_SESSION, _MAX_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
_FAILURE_DELAY: Final = "connection.failed.authentication.delay.ms"
_MIN_LAG, _MAX_LAG = "min.compaction.lag.ms", "max.compaction.lag.ms"


def consistency_problem(text: Callable[[str], str]) -> str | None:
    """Why the broker's settings contradict each other, as a sentence; None when they do not. `text` gives the value in force by name."""

    def number(name: str) -> int:
        return parse_whole(text(name), bits=64)

    if number("log.retention.ms") == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    if number("log.flush.interval.ms") < 0:
        return "log.flush.interval.ms, or log.flush.scheduler.interval.ms where that is not set, must be at least 0"
    if number("log.cleaner.dedupe.buffer.size") // number("log.cleaner.threads") <= _CLEANER_TABLE_BYTES_MIN:
        # Kafka's sentence, and Kafka's check, which wants a byte more than the sentence.
        return (
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
            f" {_CLEANER_TABLE_BYTES_MIN + 1} bytes for each will do."
        )
    if number(_MIN_SESSION) > number(_MAX_SESSION):
        means = "no member of a group could join; raise the second or lower the first"
        return f"{_MIN_SESSION} ({number(_MIN_SESSION)}) > {_MAX_SESSION} ({number(_MAX_SESSION)}): {means}"
    for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        own, low, high = f"group.consumer.{name}", f"group.consumer.min.{name}", f"group.consumer.max.{name}"
        # In Kafka's words.
        if number(high) < number(low):
            return f"{high} must be greater than or equal to {low}"
        if number(own) < number(low):
            return f"{own} must be greater than or equal to {low}"
        if number(own) > number(high):
            return f"{own} must be less than or equal to {high}"
    if number("group.consumer.heartbeat.interval.ms") >= number("group.consumer.session.timeout.ms"):
        return "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms"
    if "classic" not in parse_list(text("group.coordinator.rebalance.protocols")):
        return "group.coordinator.rebalance.protocols must have classic: the classic protocol cannot be disabled"
    assignors = parse_list(text("group.consumer.assignors"))
    if not assignors:
        return "Configuration 'group.consumer.assignors' must not be empty. Valid values include: any non-empty value"
    unknown = [name for name in assignors if ":" not in name and name not in CONSUMER_ASSIGNORS]
    if unknown:
        return f"group.consumer.assignors: {shown(unknown[0])} cannot be found: name uniform, range, or your own as module:Class"
    if text("authorizer.class.name").strip() not in ("", STANDARD_AUTHORIZER):
        found = shown(text("authorizer.class.name"))
        return f"authorizer.class.name: {found} is Java and cannot be loaded here; there is {STANDARD_AUTHORIZER} (`ottla docs acls`)"
    wrong = [user for user in super_users(text("super.users")) if not all(user.partition(":")[::2])]
    if wrong:
        return f"super.users: expected a string in format principalType:principalName but got {shown(wrong[0])}"
    lag_problem = _lag_problem(number(f"log.cleaner.{_MIN_LAG}"), number(f"log.cleaner.{_MAX_LAG}"))
    return lag_problem or _connections_problem(text) or handler_problem(text)


def super_users(text: str) -> tuple[str, ...]:
    """The principals of `super.users`: `User:alice;User:bob`."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _connections_problem(text: Callable[[str], str]) -> str | None:
    try:
        overrides = connection_overrides(text("max.connections.per.ip.overrides"))
    except ValueError as error:
        return str(error)
    if parse_whole(text("max.connections.per.ip"), bits=32) == 0 and not overrides:
        return "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    if parse_whole(text("connections.max.idle.ms"), bits=64) == 0:
        return "connections.max.idle.ms must be at least 1, or negative for never: with 0 every connection would be closed at once"
    delay_ms, idle_ms = (parse_whole(text(name), bits=64) for name in (_FAILURE_DELAY, "connections.max.idle.ms"))
    if 0 <= idle_ms <= delay_ms:
        return (
            f"{_FAILURE_DELAY}={delay_ms} should always be less than connections.max.idle.ms={idle_ms}"
            " to prevent failed authentication responses from timing out"
        )
    queued, largest = (parse_whole(text(name), bits=64) for name in ("queued.max.request.bytes", "socket.request.max.bytes"))
    if 0 < queued < largest:
        return "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    return None


def topic_consistency_problem(text: Callable[[str], str]) -> str | None:
    """The same of a topic's settings; `text` gives the value in force by name."""
    return _lag_problem(parse_whole(text(_MIN_LAG), bits=64), parse_whole(text(_MAX_LAG), bits=64))


def _lag_problem(low: int, high: int) -> str | None:
    return f"conflict topic config setting {_MIN_LAG} ({low}) > {_MAX_LAG} ({high})" if low > high else None
