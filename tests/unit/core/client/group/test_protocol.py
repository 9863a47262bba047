"""The consumer protocol's bytes: of every version, and of any bytes a value or PeerError."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.client.group.protocol import Subscription, decode_assignment, decode_subscription, encode_assignment, encode_subscription
from ottla.core.errors import PeerError
from ottla.core.groups.consumer_protocol import parse_assignment, parse_subscription
from ottla.testing.kit import consumer_protocol as kit

NAMES = st.text("ab-.", min_size=1, max_size=5)
PARTITIONS = st.dictionaries(NAMES, st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True).map(sorted).map(tuple), max_size=3)


@given(st.frozensets(NAMES, max_size=4), PARTITIONS, st.integers(-1, 100), st.none() | NAMES, st.none() | st.binary(max_size=8))
def test_subscriptions_come_back(
    topics: frozenset[str], owned: dict[str, tuple[int, ...]], generation: int, rack: str | None, user_data: bytes | None
) -> None:
    data = encode_subscription(topics, owned=owned, generation=generation, rack=rack or "", user_data=user_data)
    expected = Subscription(topics=topics, owned=owned, generation=generation, rack=rack, user_data=user_data)
    assert decode_subscription(data) == expected
    assert parse_subscription(data).topics == tuple(sorted(topics)), "the coordinator reads the same"
    assert parse_subscription(data).owned == owned


@given(PARTITIONS)
def test_assignments_come_back(partitions: dict[str, tuple[int, ...]]) -> None:
    assert decode_assignment(encode_assignment(partitions)) == partitions == parse_assignment(encode_assignment(partitions))


def test_the_bytes_of_a_java_member() -> None:
    # As Kafka 4.3 writes version 3.
    data = bytes.fromhex("000300000002000174000175000000020102000000010001740000000200000000000000010000000700027231")
    assert encode_subscription({"u", "t"}, owned={"t": [1, 0]}, generation=7, rack="r1", user_data=b"\1\2") == data


def test_older_versions_are_read() -> None:
    assert decode_subscription(kit.encode_subscription(["b", "a"])) == Subscription(topics=frozenset({"a", "b"}))
    read = decode_subscription(kit.encode_subscription(["a"], {"a": [1]}))
    assert read == Subscription(topics=frozenset({"a"}), owned={"a": (1,)})


def test_no_bytes_are_an_empty_assignment() -> None:
    assert decode_assignment(b"") == {}


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_peer_error(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        with suppress(PeerError):
            decode(data)  # type: ignore[operator]


def test_a_version_below_zero_is_refused() -> None:
    with pytest.raises(PeerError, match="version -1"):
        decode_subscription(b"\xff\xff" + bytes(20))
