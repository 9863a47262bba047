"""Which quota counts for whom, how long clients wait, and what cannot be set: Kafka's ClientQuotaManagerTest and its siblings.

Time is virtual.
"""

import pytest

from ottla.metadata import quota_usage
from ottla.metadata.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Match,
)
from ottla.metadata.quota_usage import MutationUsage, QuotaUsage, Rate
from ottla.protocol.errors import ApiError, ErrorCode

KEY = PRODUCER_BYTE_RATE
ALL = {"user": None, "client-id": None}


def entity(text: str) -> list[tuple[str, str | None]]:
    """`user=alice client-id=*`; the star stands for the default."""
    return [(kind, None if name == "*" else name) for kind, _, name in (part.partition("=") for part in text.split())]


def quotas(**values: float) -> ClientQuotas:
    made = ClientQuotas()
    for text, value in values.items():
        put(made, text, value)
    return made


def put(to: ClientQuotas, text: str, value: float | None, key: str = KEY) -> None:
    records = to.alter(entity(text), {key: value}, lambda _: True)
    assert not isinstance(records, ApiError)
    for record in records:
        to.replay(record)


ORDER = [
    ("user=alice client-id=c", ("alice", "c")),
    ("user=alice client-id=*", ("alice", "c")),
    ("user=alice", ("alice", "")),
    ("user=* client-id=c", ("alice", "c")),
    ("user=* client-id=*", ("alice", "c")),
    ("user=*", ("alice", "")),
    ("client-id=c", ("", "c")),
    ("client-id=*", ("", "c")),
]


@pytest.mark.conformance(
    "ClientQuotaManagerTest.testQuotaConfigPrecedence",
    "ClientQuotaManagerTest.testSetAndRemoveDefaultUserQuota",
    "ClientQuotaManagerTest.testSetAndRemoveUserQuota",
    "ClientQuotaManagerTest.testSetAndRemoveUserClientQuota",
    "ClientQuotaManagerTest.testQuotaTypesEnabledUpdatesWithDefaultCallback",
)
def test_the_first_quota_that_is_set_counts_in_kafkas_order() -> None:
    made = ClientQuotas()
    for number, (text, _) in enumerate(ORDER):
        put(made, text, number + 1)
    assert made.has(KEY)
    for number, (text, counted_as) in enumerate(ORDER):
        assert made.of_client(KEY, "alice", "c") == (number + 1, counted_as)
        put(made, text, None)
    assert made.of_client(KEY, "alice", "c") is None
    assert not made.has(KEY)


@pytest.mark.conformance("ClientQuotaManagerTest.testUserQuotaParsingWithDefaultClientIdQuota")
def test_other_users_and_clients_have_the_defaults() -> None:
    made = quotas(**{"user=alice client-id=c": 1.0, "user=alice": 2.0, "user=*": 3.0, "client-id=c": 4.0})
    assert [made.of_client(KEY, *who) for who in (("alice", "c"), ("alice", "d"), ("bob", "c"), ("", ""))] == [
        (1, ("alice", "c")), (2, ("alice", "")), (3, ("bob", "")), (3, ("", "")),
    ]  # fmt: skip


def test_a_quota_of_another_kind_does_not_hide_one_of_a_lower_level() -> None:
    made = quotas(**{"user=*": 3.0})
    put(made, "user=alice", 5, REQUEST_PERCENTAGE)
    assert made.of_client(KEY, "alice", "c") == (3, ("alice", ""))


@pytest.mark.conformance("ClientQuotaManagerTest.testQuotaViolation")
def test_how_long_a_client_waits() -> None:
    made = quotas(**{"client-id=*": 500.0})
    usage = QuotaUsage(made, KEY, 11, 1000)
    for second in range(10):
        assert usage.record("u", "c", 400, second * 1000) == 0
    assert usage.record("u", "c", 2300, 10_500) == 2100, "(600 - 500) / 500 x 10.5 s"
    for second in range(11, 22):
        usage.record("u", "c", 400, second * 1000)
    assert usage.record("u", "c", 0, 22_500) == 0, "the burst has left the windows"


def test_the_request_quota_waits_one_window_at_most() -> None:
    made = ClientQuotas()
    put(made, "user=u", 1, REQUEST_PERCENTAGE)
    usage = QuotaUsage(made, REQUEST_PERCENTAGE, 11, 1000, throttle_ms_max=1000)
    for second in range(10):
        assert usage.record("u", "c", 0.4, second * 1000) == 0
    assert usage.record("u", "c", 6.71, 10_500) == 210
    assert usage.record("u", "c", 1000, 10_500) == 1000


def test_a_rate_counts_at_least_ten_windows_and_forgets_old_ones() -> None:
    rate = Rate(11, 1000)
    assert rate.measure(0) == (0, 10)
    rate.record(100, 0)
    assert rate.measure(0) == (10, 10)
    assert rate.measure(500) == (100 / 10.5, 10.5)
    assert rate.measure(10_999) == (100 / 10.999, 10.999)
    assert rate.measure(11_000) == (0, 10)


def test_users_share_what_is_set_for_the_user_and_clients_are_counted_by_themselves() -> None:
    made = quotas(**{"user=alice": 100.0, "user=bob client-id=*": 100.0})
    usage = QuotaUsage(made, KEY, 11, 1000)
    assert usage.record("alice", "a", 1000, 0) == 0
    assert usage.record("alice", "b", 1000, 0) == 10_000
    assert usage.record("bob", "a", 1000, 0) == usage.record("bob", "b", 1000, 0) == 0
    assert usage.record("carol", "a", 10**9, 0) == 0, "who has no quota is not counted"
    assert len(usage) == 3


def test_a_quota_that_changes_counts_at_once() -> None:
    made = quotas(**{"user=alice": 100.0})
    usage = QuotaUsage(made, KEY, 11, 1000)
    assert usage.record("alice", "a", 2000, 0) == 10_000
    put(made, "user=alice", 1000)
    assert usage.record("alice", "a", 0, 0) == 0


@pytest.mark.conformance("ClientQuotaManagerTest.testExpireQuotaSensors")
def test_new_names_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_usage, "COUNTED_MAX", 3)
    made = quotas(**{"client-id=*": 10.0})
    usage = QuotaUsage(made, KEY, 11, 1000)
    usage.record("", "first", 1000, 0)
    for name in ("a", "b", "c"):
        usage.record("", name, 1, 0)
    assert len(usage) == 3
    assert usage.record("", "first", 1, 0) == 0, "the one that was idle longest was forgotten"


def test_partitions_are_created_while_there_are_tokens() -> None:
    made = ClientQuotas()
    put(made, "user=alice", 10, CONTROLLER_MUTATION_RATE)
    usage = MutationUsage(made, CONTROLLER_MUTATION_RATE, 11, 1000)
    assert usage.record("alice", "c", 120, 0, strict=True) == (True, 0), "110 tokens are there: it may go below zero"
    assert usage.record("alice", "c", 1, 0, strict=True) == (False, 1000)
    assert usage.record("alice", "c", 1, 500, strict=True) == (False, 500)
    assert usage.record("alice", "c", 70, 1000, strict=False) == (True, 7000), "an old client's request is done, and it waits"
    assert usage.record("alice", "c", 10, 1000, strict=False) == (True, 8000)
    assert usage.record("alice", "c", 1, 9000, strict=True) == (True, 0)
    assert usage.record("bob", "c", 10**6, 0, strict=True) == (True, 0)


def test_addresses() -> None:
    made = ClientQuotas()
    put(made, "ip=10.0.0.1", 5, CONNECTION_CREATION_RATE)
    assert (made.of_address("10.0.0.1"), made.of_address("10.0.0.2")) == (5, None)
    put(made, "ip=*", 7, CONNECTION_CREATION_RATE)
    assert (made.of_address("10.0.0.1"), made.of_address("10.0.0.2")) == (5, 7)


@pytest.mark.parametrize(
    ("text", "key", "value", "message"),
    [
        ("", KEY, 1, "Invalid empty client quota entity"),
        ("group=g", KEY, 1, "Unhandled client quota entity type: group"),
        ("user=", KEY, 1, "Empty user not supported"),
        ("user=a user=b", KEY, 1, "Invalid client quota entity, duplicate entity entry user"),
        ("user=a ip=1.1.1.1", KEY, 1, "Invalid empty client quota entity"),
        ("ip=nowhere", CONNECTION_CREATION_RATE, 1, "nowhere is not a valid IP or resolvable host."),
        ("user=a", CONNECTION_CREATION_RATE, 1, "Invalid configuration key connection_creation_rate"),
        ("ip=1.1.1.1", KEY, 1, "Invalid configuration key producer_byte_rate"),
        ("user=a", KEY, 0, "Quota producer_byte_rate must be greater than 0"),
        ("user=a", KEY, -1, "Quota producer_byte_rate must be greater than 0"),
        ("user=a", KEY, float("nan"), "Quota producer_byte_rate must be greater than 0"),
        ("user=a", KEY, 1.5, "producer_byte_rate cannot be a fractional value."),
        ("user=a", KEY, 1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
        ("ip=1.1.1.1", CONNECTION_CREATION_RATE, 1e10, "Proposed value for connection_creation_rate is too large for an INT."),
    ],
)
def test_what_cannot_be_set(text: str, key: str, value: float, message: str) -> None:
    refused = ClientQuotas().alter(entity(text), {key: value}, lambda address: address != "nowhere")
    assert refused == ApiError(ErrorCode.INVALID_REQUEST, message)


def test_what_changes_nothing_has_no_record() -> None:
    made = quotas(**{"user=alice": 100.0})
    before = made.version
    put(made, "user=alice", 100)
    put(made, "user=bob", None)
    put(made, "user=alice", 1.5, REQUEST_PERCENTAGE)
    assert made.version == before + 1


def test_what_a_filter_finds() -> None:
    texts = [text for text, _ in ORDER]
    made = quotas(**dict.fromkeys(texts, 1.0))

    def found(*wanted: Match, strict: bool = False) -> set[int]:
        entities = [tuple(sorted(entity(text), key=lambda part: part[0])) for text in texts]
        return {entities.index(each) for each, _ in made.matching(wanted, strict=strict)}

    assert found() == set(range(8))
    assert found(strict=True) == set()
    assert found(Match("user", "alice", False)) == {0, 1, 2}
    assert found(Match("user", "alice", False), strict=True) == {2}
    assert found(Match("user", None, False)) == {3, 4, 5}
    assert found(Match("user", None, True)) == {0, 1, 2, 3, 4, 5}
    assert found(Match("user", None, True), Match("client-id", "c", False)) == {0, 3}
    assert found(Match("ip", None, True)) == set()
