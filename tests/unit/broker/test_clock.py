"""The broker's clock."""

import time

from ottla.broker.clock import now_ms


def test_it_is_milliseconds_since_1970() -> None:
    before = int(time.time() * 1000)
    assert before - 1 <= now_ms() <= int(time.time() * 1000) + 1
