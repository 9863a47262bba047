"""The settings that a what-if may change, by their Kafka names, and what each does to a group's behaviour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from ottla.groups.assignors import coordinator_assignors, find_assignor
from ottla.groups.settings import GroupSettings
from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour, Process, Reaction
from ottla.text import did_you_mean

VALUE_MAX: Final = 2**31 - 1
SWITCH: Final = {"on": True, "off": False}

NAMES: Final[Mapping[str, str]] = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.poll.records": "max_poll_records",
    "group.instance.id": "is_static",
    "group.initial.rebalance.delay.ms": "initial_rebalance_delay_ms",
    "partition.assignment.strategy": "assignor",
    "group.protocol": "protocol",
}
"""Kafka's name, and the field of `Settings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a group; None: as recorded. `protocol`: `consumer` (KIP-848), where session timeout and heartbeat interval are those of
    the group, or `classic`. `is_static`: whether each process has a `group.instance.id` of its own."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    max_poll_records: int | None = None
    is_static: bool | None = None
    initial_rebalance_delay_ms: int | None = None
    assignor: str | None = None
    protocol: str | None = None

    def texts(self) -> dict[str, str]:
        """What is set, by Kafka's names, as it is written."""
        return {name: _text(value) for name, field in NAMES.items() if (value := getattr(self, field)) is not None}


RECORDED_DEFAULTS: Final = Settings(heartbeat_interval_ms=3_000, max_poll_records=500)
"""What no evidence shows, as the Java client and librdkafka have it by default."""


def parse_settings(texts: Iterable[str]) -> Settings:
    """Settings from NAME=VALUE. Raises ValueError that says what to write."""
    found: dict[str, object] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if name not in NAMES:
            raise ValueError(f"{name!r} is no setting of a what-if{did_you_mean(name, NAMES)} (settings: {', '.join(NAMES)})")
        if not equals or not value:
            raise ValueError(f"{text!r} has no value: write {name}=VALUE")
        found[NAMES[name]] = _value(name, value)
    return Settings(**found)  # type: ignore[arg-type]


def merge(first: Settings, second: Settings) -> Settings:
    """`first`, with what `second` sets."""
    given = {field.name: value for field in fields(Settings) if (value := getattr(second, field.name)) is not None}
    return replace(first, **given)


def apply_settings(behaviour: GroupBehaviour, settings: Settings, recorded: Settings = RECORDED_DEFAULTS) -> GroupBehaviour:
    """The behaviour under `settings`. `recorded`: the heartbeat interval and records per poll that the group had."""
    delay_ms, protocol = settings.initial_rebalance_delay_ms, settings.assignor
    if settings.protocol is not None:
        settings = _of_other_protocol(behaviour, settings, is_consumer_type=settings.protocol == CONSUMER)
        protocol = settings.assignor
    is_consumer_type = behaviour.is_consumer_type if settings.protocol is None else settings.protocol == CONSUMER
    return replace(
        behaviour,
        is_consumer_type=is_consumer_type,
        heartbeat_interval_ms=(is_consumer_type and settings.heartbeat_interval_ms) or behaviour.heartbeat_interval_ms,
        processes=tuple(_process(each, settings, recorded) for each in behaviour.processes),
        reactions=tuple(_reaction(each, settings, recorded) for each in behaviour.reactions),
        initial_rebalance_delay_ms=behaviour.initial_rebalance_delay_ms if delay_ms is None else delay_ms,
        protocol=protocol or behaviour.protocol,
    )


CONSUMER: Final = "consumer"
_GROUP_DEFAULTS: Final = GroupSettings()


def _of_other_protocol(behaviour: GroupBehaviour, settings: Settings, *, is_consumer_type: bool) -> Settings:
    """The settings with what the other protocol has by default: a consumer group's session and assignor are the coordinator's."""
    if is_consumer_type == behaviour.is_consumer_type:
        return settings
    if not is_consumer_type:
        return replace(settings, assignor=settings.assignor or "range")
    session_ms = settings.session_timeout_ms or _GROUP_DEFAULTS.consumer_session_timeout_ms
    interval_ms = settings.heartbeat_interval_ms or _GROUP_DEFAULTS.consumer_heartbeat_interval_ms
    assignor = settings.assignor or next(iter(_GROUP_DEFAULTS.consumer_assignors))
    return replace(settings, session_timeout_ms=session_ms, heartbeat_interval_ms=interval_ms, assignor=assignor)


def _process(process: Process, settings: Settings, recorded: Settings) -> Process:
    instance_id = process.instance_id
    if settings.is_static is not None:
        instance_id = (instance_id or process.name) if settings.is_static else None
    factor = (settings.max_poll_records or 1) / (recorded.max_poll_records or 1) if settings.max_poll_records else 1.0
    return replace(
        process,
        instance_id=instance_id,
        session_timeout_ms=settings.session_timeout_ms or process.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms or process.rebalance_timeout_ms,
        actions=tuple(_scaled(each, factor) for each in process.actions),
    )


def _scaled(action: Action, factor: float) -> Action:
    if action.kind is not ActionKind.POLL_GAP or action.until_ms is None or factor == 1.0:
        return action
    return replace(action, until_ms=action.at_ms + round(action.length_ms * factor), uncertain_ms=round(action.uncertain_ms * factor))


def _reaction(reaction: Reaction, settings: Settings, recorded: Settings) -> Reaction:
    if settings.heartbeat_interval_ms is None or not recorded.heartbeat_interval_ms:
        return reaction
    scaled = reaction.join_ms * settings.heartbeat_interval_ms // recorded.heartbeat_interval_ms
    return replace(reaction, join_ms=min(scaled, settings.heartbeat_interval_ms))


def _value(name: str, text: str) -> object:
    if name == "group.instance.id":
        if text.lower() not in SWITCH:
            raise ValueError(f"group.instance.id={text}: write on (each process has an id of its own) or off")
        return SWITCH[text.lower()]
    if name == "partition.assignment.strategy":
        if text not in coordinator_assignors():
            find_assignor(text)
        return text
    if name == "group.protocol":
        if text not in (CONSUMER, "classic"):
            raise ValueError(f"group.protocol={text}: write classic or consumer")
        return text
    least = 0 if name == "group.initial.rebalance.delay.ms" else 1
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(VALUE_MAX))
    if not is_number or not least <= int(text) <= VALUE_MAX:
        raise ValueError(f"{name}={text}: write a whole number from {least} to {VALUE_MAX}")
    return int(text)


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
