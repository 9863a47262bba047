"""Save mode Overwrite against a scripted cluster: accepted where no record would have to be replaced."""

from typing import Any

import pytest

from ottla.client.settings import ClientSettings
from ottla.core.errors import ErrorCode
from ottla.spark.options.values import OptionError
from ottla.spark.sink.first_contact import FirstContact
from ottla.spark.sink.overwriting import check_nothing_is_replaced

CLIENT = ClientSettings(bootstrap_servers="localhost:9092")


def of(topic: str | None) -> FirstContact:
    return FirstContact(CLIENT, topic, 700)


def test_a_topic_without_records_or_a_missing_one_is_accepted(cluster: Any):
    cluster.topic("emptied", (7, 7), (0, 0))
    for topic in ("emptied", "missing"):
        check_nothing_is_replaced(of(topic), connect=cluster.connect)
    assert not cluster.is_open
    assert cluster.bootstrap_timeouts == [700, 700]


def test_records_are_not_replaced(cluster: Any):
    cluster.topic("t", (0, 0), (7, 8))
    with pytest.raises(OptionError, match=r"not allowed for topic t, which has records: .* Add to them with mode\(\"append\"\)"):
        check_nothing_is_replaced(of("t"), connect=cluster.connect)
    with pytest.raises(OptionError, match='needs the option "topic"'):
        check_nothing_is_replaced(of(None), connect=cluster.connect)


def test_a_topic_that_may_not_be_described_is_not_overwritten(cluster: Any):
    cluster.refusals["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(OptionError, match="cannot look at topic secret: TOPIC_AUTHORIZATION_FAILED"):
        check_nothing_is_replaced(of("secret"), connect=cluster.connect)
