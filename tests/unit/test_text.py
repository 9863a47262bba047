"""Text of others as one printable line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config import BROKER_SETTINGS, TOPIC_SETTINGS
from ottla.text import did_you_mean, java_hash, java_order, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-2", "orders-2"),
        ("größe 日本", "größe 日本"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\u202eb", r"a\u202eb"),
        ("\x9b31m", r"\x9b31m"),
    ],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_the_result_is_printable(text: str) -> None:
    assert printable(text).isprintable()


# Suggestions for mistyped names.


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


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("a", 97), ("[topic,0]", 2068025637), ("[topic,10]", -315715034), ("😀-group", -1198440043)]
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_java_orders_strings_by_utf_16_units() -> None:
    # U+FF5E is one unit above the surrogates that make up an emoji, though its code point is smaller.
    assert sorted(["\uff5e", "😀"], key=java_order) == ["😀", "\uff5e"]
    assert sorted(["b", "a", "aa"], key=java_order) == ["a", "aa", "b"]
