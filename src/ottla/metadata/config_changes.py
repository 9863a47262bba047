"""Decides about changes of settings: the new values, or the error with Kafka's message."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.config import (
    BROKER_SETTINGS,
    DYNAMIC_BROKER_SETTINGS,
    GROUP_SETTINGS,
    KAFKA_BROKER_SETTINGS,
    KAFKA_GROUP_SETTINGS,
    KAFKA_TOPIC_SETTINGS,
    TOPIC_SETTINGS,
    ConfigType,
    consistency_problem,
    group_consistency_problem,
    shown,
    topic_consistency_problem,
)
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, ResourceConfigs, settings_of
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.text import did_you_mean

OPERATIONS: Final = range(4)
SET, DELETE, APPEND, SUBTRACT = OPERATIONS

_WORDS: Final = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker", GROUP_RESOURCE: "group"}
_OF_KAFKA: Final = {TOPIC_RESOURCE: KAFKA_TOPIC_SETTINGS, BROKER_RESOURCE: KAFKA_BROKER_SETTINGS, GROUP_RESOURCE: KAFKA_GROUP_SETTINGS}

SUGGESTIONS_MAX: Final = 10
"""A request about more resources is a program's: its unknown names get no suggestion."""

Change = tuple[str, int, str | None]
"""Name, operation and value of one change."""


def resource_problem(resource_type: int, resource_name: str, broker_id: int, names: Sequence[str]) -> ApiError | None:
    """Why this broker cannot change settings `names` of a resource; None when it may be able to."""
    message = None
    if resource_type not in _WORDS:
        message = f"Unknown resource type {resource_type}"
    elif resource_type != BROKER_RESOURCE and not resource_name:
        message = f"Default {_WORDS[resource_type]} resources are not allowed."
    elif resource_type == BROKER_RESOURCE and resource_name not in ("", str(broker_id)):
        message = f"Unexpected broker id, expected {broker_id}, but received {shown(resource_name)}"
    elif len(set(names)) != len(names):
        message = "Error due to duplicate config keys"
    return ApiError(ErrorCode.INVALID_REQUEST, message) if message else None


def replacing(given: Iterable[str], wanted: Mapping[str, str | None]) -> list[Change] | ApiError:
    """The changes that leave a resource with the settings `wanted` alone, where `given` have been set until now."""
    null = next((name for name, value in wanted.items() if value is None), None)
    if null is not None:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {shown(null)}")
    changes: list[Change] = [(name, SET, value) for name, value in wanted.items()]
    return changes + [(name, DELETE, None) for name in given if name not in wanted]


def new_topic_problem(configs: ResourceConfigs, given: Mapping[str, str | None]) -> ApiError | None:
    """Why a topic cannot be created with these settings; None when it can."""
    for name, value in given.items():
        problem = _name_problem(TOPIC_RESOURCE, name)
        if problem is not None:
            return problem
        if value is None:
            return ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
    return _values_problem(configs, TOPIC_RESOURCE, "", given, {name: value for name, value in given.items() if value is not None})


def altered_configs(
    configs: ResourceConfigs, resource_type: int, resource_name: str, changes: Sequence[Change]
) -> dict[str, str | None] | ApiError:
    """The new values that changes give the settings of a resource, by name; None where one is deleted."""
    after = dict(configs.given(resource_type, resource_name))
    altered: dict[str, str | None] = {}
    for name, operation, value in changes:
        if operation == DELETE:
            if after.pop(name, None) is not None:  # as in Kafka, any other name can be deleted, to no effect
                altered[name] = None
        else:
            refused = _change_problem(resource_type, name, operation)
            if refused is not None:
                return refused
            assert value is not None
            altered[name] = after[name] = _merged(configs, resource_type, name, operation, value, after)
    return _values_problem(configs, resource_type, resource_name, altered, after) or altered


def _change_problem(resource_type: int, name: str, operation: int) -> ApiError | None:
    setting = settings_of(resource_type).get(name)
    if operation != SET and (setting is None or setting.type is not ConfigType.LIST):
        word = "APPEND" if operation == APPEND else "SUBTRACT"
        return ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {word} to key {shown(name)} because its type is not LIST.",
            unknown=None if setting else name,
        )
    return _name_problem(resource_type, name)


def _merged(configs: ResourceConfigs, resource_type: int, name: str, operation: int, value: str, after: Mapping[str, str]) -> str:
    """Append to lists and subtract from them as Kafka's controller does: by the text between commas, blanks included."""
    if operation == SET:
        return value
    present = after[name] if name in after else _inherited(configs, resource_type, name)
    items = [item for item in present.split(",") if item]
    given = value.split(",")
    if operation == APPEND:
        return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in items)])
    return ",".join(item for item in items if item not in given)


def _inherited(configs: ResourceConfigs, resource_type: int, name: str) -> str:
    return configs.broker_value(TOPIC_SETTINGS[name].broker_name or name if resource_type == TOPIC_RESOURCE else name)[0]


def without_effect(resource_type: int, names: Iterable[str]) -> list[str]:
    """Those of `names` that may be set and are unknown: as in Kafka, any on brokers, where they may be a plug-in's."""
    return [name for name in names if resource_type == BROKER_RESOURCE and _is_unknown_to_brokers(name)]


def _is_unknown_to_brokers(name: str) -> bool:
    return name not in BROKER_SETTINGS and name not in KAFKA_BROKER_SETTINGS


def _name_problem(resource_type: int, name: str) -> ApiError | None:
    if resource_type == BROKER_RESOURCE and _is_unknown_to_brokers(name):
        return None
    if name not in settings_of(resource_type):
        return _unknown(resource_type, name)
    if resource_type == BROKER_RESOURCE and name not in DYNAMIC_BROKER_SETTINGS:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {name}; restart the broker with it.")
    return None


def _values_problem(
    configs: ResourceConfigs, resource_type: int, resource_name: str, changed: Mapping[str, str | None], after: Mapping[str, str]
) -> ApiError | None:
    """Why the changed values are invalid, or contradict others that are in force."""
    for name, value in changed.items():
        setting = settings_of(resource_type).get(name)
        if value is not None and setting is not None:
            problem = setting.problem(value)
            if problem is not None:
                return ApiError(ErrorCode.INVALID_CONFIG, problem)
    if resource_type == TOPIC_RESOURCE:
        problem = topic_consistency_problem(lambda name: configs.topic_value(after, name)[0])
    elif resource_type == GROUP_RESOURCE:
        # Kafka's controller checks the whole, so deleting one setting may leave the rest invalid.
        usable = {name: text for name, text in after.items() if name in GROUP_SETTINGS and GROUP_SETTINGS[name].problem(text) is None}
        problem = group_consistency_problem(usable, lambda name: configs.broker_value(name)[0])
    else:
        problem = consistency_problem(lambda name: configs.broker_value_if(name, resource_name, after)[0])
    return ApiError(ErrorCode.INVALID_CONFIG, problem) if problem is not None else None


def _unknown(resource_type: int, name: str) -> ApiError:
    word = _WORDS[resource_type]
    if name in _OF_KAFKA[resource_type]:
        return ApiError(ErrorCode.INVALID_CONFIG, f"{name} is a {word} config of Apache Kafka that this broker does not act on")
    return ApiError(ErrorCode.INVALID_CONFIG, f"Unknown {word} config name: {shown(name)}", unknown=name)


def suggestion(resource_type: int, refused: ApiError) -> str:
    """An addition to the message: the known name most similar to the unknown one. It takes 0.3 ms."""
    return "" if refused.unknown is None else did_you_mean(refused.unknown, settings_of(resource_type))
