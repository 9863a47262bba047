"""Suggestions for mistyped names."""

import pytest

from ottla.core.config import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.core.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("NUM_PARTITIONS", "num.partitions"),
        ("numpartitions", "num.partitions"),
        ("group.max.session.timeout", "group.max.session.timeout.ms"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
        (" log-retention-ms ", "log.retention.ms"),
    ],
)
def test_a_mistyped_name_is_recognised(written: str, meant: str) -> None:
    assert did_you_mean(written, BROKER_SETTINGS) == f"; did you mean '{meant}'?"


@pytest.mark.parametrize("written", ["", "x", "zookeeper.connect", "no.such.setting", "retention.ms" * 1000])
def test_other_names_are_like_none(written: str) -> None:
    assert did_you_mean(written, TOPIC_SETTINGS) == ""
