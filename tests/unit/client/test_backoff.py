"""Exponential back-off, within limits."""

import pytest

from ottla.client.backoff import backoff_ms


def test_each_wait_is_twice_the_last_one_up_to_the_limit() -> None:
    assert [backoff_ms(failures, 100, 1_000, 0.5) for failures in range(1, 7)] == [100, 200, 400, 800, 1_000, 1_000]


def test_jitter_is_a_fifth_and_never_exceeds_the_limit() -> None:
    assert [backoff_ms(1, 100, 1_000, rng) for rng in (0.0, 1.0)] == pytest.approx([80, 120])
    assert backoff_ms(5, 100, 1_000, 1.0) == 1_000


def test_a_first_wait_above_the_limit_is_the_limit_from_the_beginning() -> None:
    assert [backoff_ms(failures, 5_000, 1_000, 0.0) for failures in (1, 9)] == [1_000, 1_000]


def test_no_number_of_failures_is_too_large() -> None:
    assert backoff_ms(10**9, 1, 2**63 - 1, 0.5) == pytest.approx(2**62)
    assert backoff_ms(3, 0, 0, 0.5) == 0
