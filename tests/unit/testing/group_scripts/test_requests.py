"""Requests of scripted members: right ones, and ones that are wrong in one thing."""

from random import Random

import pytest

from ottla.testing.group_scripts.requests import IDENTITIES, VERSIONS, heartbeat, join, leave, version_of, wrong_identity
from ottla.testing.group_scripts.view import Actor, View
from ottla.testing.raw_client import build_request, kio_versions


def actor(instance_id: str | None = None) -> Actor:
    protocols = [("range", b"x")]
    return Actor(
        number=0, client_id="c0", instance_id=instance_id, protocols=protocols, session_ms=5, rebalance_ms=6, member_id="m", generation=4
    )


def view() -> View:
    return View(group="g", protocol_type="consumer", topics={"t": 1})


def test_the_versions_are_those_of_the_messages() -> None:
    assert {api: kio_versions(api) for api in VERSIONS} == VERSIONS


@pytest.mark.parametrize("api", VERSIONS)
def test_every_version_comes_up(api: int) -> None:
    rng = Random(1)
    first, last = VERSIONS[api]
    assert {version_of(rng, api) for _ in range(400)} == set(range(first, last + 1))


def test_static_members_use_versions_that_know_of_them() -> None:
    rng = Random(1)
    static = actor("gate")
    assert min(join(rng, view(), static, "join").version for _ in range(100)) == 5
    assert min(heartbeat(rng, view(), static, "heartbeat").version for _ in range(100)) == 3
    assert min(join(rng, view(), actor(), "join").version for _ in range(100)) == 0


def test_a_leave_can_be_written_in_every_version() -> None:
    rng = Random(1)
    for _ in range(50):
        step = leave(rng, view(), actor(), "leave", member_id="somebody")
        request = build_request(13, step.version, step.values)
        assert (request.member_id if step.version < 3 else request.members[0].member_id) == "somebody"


@pytest.mark.parametrize("what", IDENTITIES)
def test_a_wrong_identity_differs_from_the_right_one(what: str) -> None:
    member = actor("gate")
    member.old_ids = ["old"]
    wrong = wrong_identity(Random(1), view(), member, what)
    right = {"member_id": "m", "generation_id": 4, "group_instance_id": "gate", "group_id": "g"}
    assert wrong
    assert right | wrong != right


def test_what_a_member_never_had_it_cannot_get_wrong() -> None:
    assert wrong_identity(Random(1), view(), actor(), "old-id") is None
    assert wrong_identity(Random(1), view(), actor(), "no-instance") is None
