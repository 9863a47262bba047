"""Requests of scripted members: correct ones, and ones with one error."""

from random import Random

import pytest

from ottla.core.wire.messages import versions_of
from ottla.testing.clients.raw_client import build_request
from ottla.testing.group_scripts.requests import IDENTITIES, VERSIONS, heartbeat, join, leave, version_of, wrong_identity
from ottla.testing.group_scripts.script_state import Actor, ScriptState


def actor(instance_id: str | None = None) -> Actor:
    protocols = [("range", b"x")]
    return Actor(
        number=0, client_id="c0", instance_id=instance_id, protocols=protocols, session_ms=5, rebalance_ms=6, member_id="m", generation=4
    )


def state() -> ScriptState:
    return ScriptState(group="g", protocol_type="consumer", topics={"t": 1})


def test_the_versions_are_those_of_the_messages() -> None:
    assert {api: versions_of(api) for api in VERSIONS} == {api: range(low, high + 1) for api, (low, high) in VERSIONS.items()}


@pytest.mark.parametrize("api", VERSIONS)
def test_every_version_occurs(api: int) -> None:
    rng = Random(1)
    first, last = VERSIONS[api]
    assert {version_of(rng, api) for _ in range(400)} == set(range(first, last + 1))


def test_static_members_use_versions_that_know_of_them() -> None:
    rng = Random(1)
    static = actor("instance")
    assert min(join(rng, state(), static, "join").version for _ in range(100)) == 5
    assert min(heartbeat(rng, state(), static, "heartbeat").version for _ in range(100)) == 3
    assert min(join(rng, state(), actor(), "join").version for _ in range(100)) == 0


def test_a_leave_can_be_written_in_every_version() -> None:
    rng = Random(1)
    for _ in range(50):
        step = leave(rng, state(), actor(), "leave", member_id="unknown")
        request = build_request(13, step.version, step.values)
        assert (request.member_id if step.version < 3 else request.members[0].member_id) == "unknown"


@pytest.mark.parametrize("what", IDENTITIES)
def test_a_wrong_identity_differs_from_the_right_one(what: str) -> None:
    member = actor("instance")
    member.old_ids = ["old"]
    wrong = wrong_identity(Random(1), state(), member, what)
    right = {"member_id": "m", "generation_id": 4, "group_instance_id": "instance", "group_id": "g"}
    assert wrong
    assert right | wrong != right


def test_an_error_needs_a_value_that_can_be_wrong() -> None:
    assert wrong_identity(Random(1), state(), actor(), "old-id") is None
    assert wrong_identity(Random(1), state(), actor(), "no-instance") is None
