from hypothesis import given
from hypothesis import strategies as st

from ottla.core.whatif.consumer_metadata import encode_assignment, encode_subscription
from ottla.core.wire.consumer_protocol import parse_assignment, parse_subscribed_topics, parse_subscription

PARTITIONS = st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=3)


@given(topics=st.sets(st.text(max_size=5), max_size=3), owned=PARTITIONS, user_data=st.binary(max_size=4))
def test_the_coordinator_reads_subscriptions(topics: set[str], owned: dict[str, tuple[int, ...]], user_data: bytes) -> None:
    written = encode_subscription(topics, owned, generation=3, user_data=user_data)
    assert parse_subscribed_topics(written) == tuple(sorted(topics))
    assert parse_subscription(written).owned == owned


def test_a_subscription_is_that_of_kafkas_java_client() -> None:
    written = encode_subscription(["u", "t"], {"t": (0, 1)}, generation=7, user_data=b"\x01\x02")
    assert written.hex() == "0002000000020001740001750000000201020000000100017400000002000000000000000100000007"


@given(partitions=PARTITIONS)
def test_the_coordinator_reads_assignments(partitions: dict[str, tuple[int, ...]]) -> None:
    assert parse_assignment(encode_assignment(partitions)) == partitions
