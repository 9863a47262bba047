from hypothesis import given
from hypothesis import strategies as st

from ottla.history.story.lag import LagHistory, encode_lag, lag_code
from ottla.protocol.model import TopicPartition


@given(st.integers(1, 2**24))
def test_a_code_is_at_most_four_percent_beside_the_lag(lag: int) -> None:
    meant = 2 ** ((lag_code(lag) - 2) / 10)
    assert abs(meant - lag) <= lag * 0.04


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_codes_grow_with_the_lag(one: int, other: int) -> None:
    assert (lag_code(one) <= lag_code(other)) or one > other


def test_unknown_none_and_endless_lag_have_codes_of_their_own() -> None:
    assert [lag_code(lag) for lag in (-1, 0, 1, 10**30)] == [0, 1, 2, 254]


def test_the_worst_partitions_come_first_and_the_sum_is_exact() -> None:
    rows = {TopicPartition("t", 0): [1, 2], TopicPartition("t", 1): [-1, 1_000], TopicPartition("t", 2): [50, 0]}
    encoded = encode_lag(LagHistory(1_000, 500, rows), [("t", [0, 2])], worst=2)
    assert encoded["names"] == ["t-1", "t-2"]
    assert encoded["partitions"] == [-1, 1]
    assert encoded["codes"].tolist() == [0, lag_code(1_000), lag_code(50), 1]
    assert (encoded["sum"], encoded["count"], encoded["of_partitions"]) == ([51, 1_002], 2, 3)


def test_short_rows_end_unknown() -> None:
    rows = {TopicPartition("t", 0): [4], TopicPartition("t", 1): [1, 2, 3]}
    assert encode_lag(LagHistory(0, 1, rows), [])["codes"].tolist()[:3] == [lag_code(4), 0, 0]


def test_no_rows_are_no_lag() -> None:
    assert encode_lag(LagHistory(0, 1, {}), [])["count"] == 0
