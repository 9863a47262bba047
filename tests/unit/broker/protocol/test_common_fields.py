"""Fields that several APIs share."""

import datetime

from ottla.broker.protocol.common_fields import milliseconds


def test_durations() -> None:
    assert milliseconds(datetime.timedelta(milliseconds=-1)) == -1
    assert milliseconds(datetime.timedelta(days=20, milliseconds=7)) == 1728000007
