"""A line that repeats is written once a minute."""

import logging

import pytest

from ottla.broker.network.repeated_warning import PERIOD_S, RepeatedWarning


def test_the_first_line_is_written_and_the_rest_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    limit = RepeatedWarning(logging.getLogger("limited"))
    for now_s in (0.0, 1.0, PERIOD_S - 1, PERIOD_S, PERIOD_S + 1, 2 * PERIOD_S):
        limit.warning(now_s, "again")
    assert caplog.messages == [
        "again",
        "again (2 more like this since the last such line)",
        "again (1 more like this since the last such line)",
    ]
