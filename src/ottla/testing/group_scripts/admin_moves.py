"""What an administrator asks for: groups and topics, listed, described, deleted."""

from random import Random

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.group_scripts.requests import version_of
from ottla.testing.group_scripts.script_state import ScriptState, Step

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


def _names(rng: Random, state: ScriptState) -> list[str]:
    names = [state.group, f"{state.group}-simple", f"{state.group}-none"]
    return rng.sample(names, rng.randint(1, 3))


def describe_groups(rng: Random, state: ScriptState) -> Step:
    values = {"groups": _names(rng, state), "include_authorized_operations": rng.random() < 0.3}
    return Step(kind="describe", api=ApiKey.DESCRIBE_GROUPS, version=version_of(rng, ApiKey.DESCRIBE_GROUPS), values=values)


def list_groups(rng: Random, state: ScriptState) -> Step:
    states = rng.choice([[], [], rng.sample(STATES, 2), [state.description.state.lower()], ["Nowhere"]])
    types = rng.choice([[], ["classic"], ["Classic", "share"], ["consumer"]])
    values = {"states_filter": states, "types_filter": types}
    return Step(kind="list", api=ApiKey.LIST_GROUPS, version=version_of(rng, ApiKey.LIST_GROUPS), values=values)


def find_coordinator(rng: Random, state: ScriptState) -> Step:
    values = {"key": state.group, "key_type": 0, "coordinator_keys": _names(rng, state)}
    return Step(kind="find", api=ApiKey.FIND_COORDINATOR, version=version_of(rng, ApiKey.FIND_COORDINATOR), values=values)


def delete_groups(rng: Random, state: ScriptState) -> Step:
    names = rng.choice([_names(rng, state), [state.group], [f"{state.group}-simple"]])
    return Step(
        kind="delete-groups", api=ApiKey.DELETE_GROUPS, version=version_of(rng, ApiKey.DELETE_GROUPS), values={"groups_names": names}
    )


def delete_topic(rng: Random, state: ScriptState) -> Step | None:
    own = [topic for topic in state.topics if topic.endswith("-gone")]
    if not own:
        return None
    return Step(kind="delete-topic", api=ApiKey.DELETE_TOPICS, version=5, values={"topic_names": own, "timeout": 5000})
