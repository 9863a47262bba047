"""The embedded consumer protocol: golden bytes, every version, invalid bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import PeerError
from ottla.protocol.wire.consumer_protocol import (
    Subscription,
    encode_assignment,
    encode_subscription,
    parse_assignment,
    parse_subscribed_topics,
    parse_subscription,
)
from tests.support.kit import consumer_protocol as kit

V0 = bytes.fromhex("000000000001000174ffffffff")
V3 = bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")
NAMES = st.text("ab-.", min_size=1, max_size=5)
PARTITIONS = st.dictionaries(NAMES, st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True).map(sorted).map(tuple), max_size=3)


def test_a_subscription_of_version_0_has_topics_alone() -> None:
    subscription = parse_subscription(V0)
    assert subscription.topics == ("t",)
    assert subscription.owned == {}


def test_a_subscription_of_version_3_says_what_is_owned() -> None:
    subscription = parse_subscription(V3)
    assert subscription.topics == ("t",)
    assert subscription.owned == {"t": (0, 1)}
    assert subscription.rack == "r1"
    assert parse_subscribed_topics(V3) == ("t",)


@pytest.mark.parametrize(
    ("data", "owned", "rack"),
    [
        ("000000000002000174000175000000020102", {}, None),
        ("00010000000200017400017500000002010200000001000174000000020000000000000001", {"t": (0, 1)}, None),
        ("0002000000020001740001750000000201020000000100017400000002000000000000000100000007", {"t": (0, 1)}, None),
        ("000300000002000174000175000000020102000000010001740000000200000000000000010000000700027231", {"t": (0, 1)}, "r1"),
    ],
)
def test_subscriptions_of_kafkas_java_client(data: str, owned: dict[str, tuple[int, ...]], rack: str | None) -> None:
    """As Kafka 4.3 writes each version, with user data 0102, generation 7 and rack r1."""
    found = parse_subscription(bytes.fromhex(data))
    assert (found.topics, found.owned, found.rack) == (("t", "u"), owned, rack)


def test_a_rack_is_from_version_3_on_and_may_be_null() -> None:
    assert parse_subscription(b"\x00\x02" + V3[2:]).rack is None
    assert parse_subscription(V3[:-4] + b"\xff\xff").rack is None


def test_versions_to_come_are_read_by_the_part_that_is_known() -> None:
    assert parse_subscription(b"\x00\x09" + V3[2:] + b"more").owned == {"t": (0, 1)}


def test_user_data_is_passed_over() -> None:
    data = b"\x00\x01" + V0[2:-4] + b"\x00\x00\x00\x03abc" + b"\x00\x00\x00\x00"
    assert parse_subscription(data).topics == ("t",)


@pytest.mark.parametrize("data", [b"", b"\x00", V0[:6], V0[:-4], V0[:-1], V0[:-4] + b"\x00\x00\x00\x02a"])
def test_topics_count_only_with_whole_user_data_behind_them(data: bytes) -> None:
    with pytest.raises(PeerError):
        parse_subscribed_topics(data)


def test_an_assignment_and_the_empty_one() -> None:
    assert parse_assignment(bytes.fromhex("0003000000010001740000000100000003ffffffff")) == {"t": (3,)}
    assert parse_assignment(b"") == {}


def test_what_members_write_is_what_is_read() -> None:
    assert parse_subscription(kit.encode_subscription(["b", "a"])) == Subscription(topics=("b", "a"))
    assert parse_subscription(kit.encode_subscription(["a"], {"a": [1]})) == Subscription(topics=("a",), owned={"a": (1,)})
    assert parse_assignment(kit.encode_assignment({"a": [0], "b": [1, 2]})) == {"a": (0,), "b": (1, 2)}


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\xff\xff" + V0[2:], V0[:6], b"\x00\x00\x7f\xff\xff\xff", V3[:-20], b"\x00\x00\x00\x00\x00\x01\x00\x01\xff"]
)
def test_bytes_that_are_no_subscription(data: bytes) -> None:
    with pytest.raises(PeerError):
        parse_subscription(data)


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff", b"\xff\xff\x00\x00\x00\x00"])
def test_bytes_that_are_no_assignment(data: bytes) -> None:
    with pytest.raises(PeerError):
        parse_assignment(data)


@given(st.frozensets(NAMES, max_size=4), PARTITIONS, st.integers(-1, 100), st.none() | NAMES, st.none() | st.binary(max_size=8))
def test_subscriptions_come_back(
    topics: frozenset[str], owned: dict[str, tuple[int, ...]], generation: int, rack: str | None, user_data: bytes | None
) -> None:
    data = encode_subscription(topics, owned=owned, generation=generation, rack=rack or "", user_data=user_data)
    expected = Subscription(topics=tuple(sorted(topics)), owned=owned, generation=generation, rack=rack, user_data=user_data)
    assert parse_subscription(data) == expected
    assert parse_subscribed_topics(data) == expected.topics


@given(PARTITIONS)
def test_assignments_come_back(partitions: dict[str, tuple[int, ...]]) -> None:
    assert parse_assignment(encode_assignment(partitions)) == partitions


def test_the_bytes_of_a_java_member() -> None:
    # As Kafka 4.3 writes version 3.
    data = bytes.fromhex("000300000002000174000175000000020102000000010001740000000200000000000000010000000700027231")
    assert encode_subscription({"u", "t"}, owned={"t": [1, 0]}, generation=7, rack="r1", user_data=b"\1\2") == data


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_peer_error(data: bytes) -> None:
    for parse in (parse_subscription, parse_subscribed_topics, parse_assignment):
        with suppress(PeerError):
            parse(data)  # type: ignore[operator]
