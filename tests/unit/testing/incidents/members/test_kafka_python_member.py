"""A member of its library: gets the partitions, subscribes to another topic, and leaves, on Ottla's broker."""

from collections.abc import Awaitable, Callable

from ottla.testing.incidents.members.kafka_python_member import make_client
from ottla.testing.incidents.members.program import Client


def test_a_member_lives_and_leaves(live_member: Callable[..., Awaitable[None]], run_async: Callable[..., None]) -> None:
    run_async(live_member(make_client, "kafka_python"))


def test_a_static_member_may_subscribe_by_pattern(live_member: Callable[..., Awaitable[None]], run_async: Callable[..., None]) -> None:
    run_async(live_member(make_client, "kafka_python", instance_id="one", pattern="mem.*"))


def test_it_is_a_client(live_member: Callable[..., Awaitable[None]]) -> None:
    assert all(hasattr(make_client, name) for name in vars(Client) if not name.startswith("_"))
