"""Formats of option values, and the message for each invalid one."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.options import values
from ottla.spark.options.values import OptionError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (values.flag, "TRUE", True),
        (values.flag, " false ", False),
        (values.positive, "1", 1),
        (values.positive, "+9223372036854775807", 2**63 - 1),
        (values.milliseconds, "15m", 900_000),
        (values.milliseconds, "15min", 900_000),
        (values.milliseconds, "250", 250),
        (values.milliseconds, "250MS", 250),
        (values.milliseconds, "1999us", 1),
        (values.milliseconds, "2h", 7_200_000),
        (values.milliseconds, "1d", 86_400_000),
        (values.milliseconds, "10s", 10_000),
        (values.partitions, '{"t":[1,0]}', (T0, T1)),
        (values.partitions, "{}", ()),
        (values.offsets, '{"t":{"0":23,"1":-2}}', {T0: 23, T1: -2}),
        (values.offsets, '{"t":{"0":9223372036854775807}}', {T0: 2**63 - 1}),
        (values.timestamps, '{"t":{"0":1700000000000}}', {T0: 1_700_000_000_000}),
    ],
)
def test_values_that_are_understood(parse: Callable[[str, str], Any], text: str, value: object):
    assert parse("x", text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (values.flag, "yes", 'The option "x" must be true or false'),
        (values.positive, "0", "x must be positive, not 0"),
        (values.positive, " -5", "x must be positive, not -5"),
        (values.positive, "5.0", "a whole number from 1 to"),
        (values.positive, "9223372036854775808", "a whole number from 1 to"),
        (values.positive, "٣", "a whole number from 1 to"),
        (values.milliseconds, "1.5s", "must be a time such as"),
        (values.milliseconds, "10 s", "must be a time such as"),
        (values.milliseconds, "5w", "must be a time such as"),
        (values.milliseconds, "-5s", "must be a time such as"),
        (values.partitions, '{"t":0}', r'Expected e.g. {"topicA":\[0,1\]'),
        (values.partitions, '{"t":["0"]}', "Expected e.g."),
        (values.partitions, '{"t":[-1]}', "Expected e.g."),
        (values.offsets, "yesterday", 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got yesterday'),
        (values.offsets, "[]", "Expected e.g."),
        (values.offsets, '{"t":5}', "Expected e.g."),
        (values.offsets, '{"t":{"0":"5"}}', "Expected e.g."),
        (values.offsets, '{"t":{"0":true}}', "Expected e.g."),
        (values.offsets, '{"t":{"x":5}}', "Expected e.g."),
        (values.offsets, '{"t":{"-1":5}}', "Expected e.g."),
        (values.offsets, '{"t":{"99999999999":5}}', "Expected e.g."),
        (values.offsets, '{"t":{"0":-3}}', "Expected e.g."),
        (values.offsets, "[" * 100_000, "Expected e.g."),
        (values.timestamps, '{"t":{"0":1.5}}', "Expected e.g."),
    ],
)
def test_values_that_are_none(parse: Callable[[str, str], Any], text: str, message: str):
    with pytest.raises(OptionError, match=message):
        parse("x", text)


@pytest.mark.parametrize("read", [values.partitions, values.offsets])
def test_an_error_shows_the_beginning_of_a_long_text(read):
    with pytest.raises(OptionError) as raised:
        read("assign", "[" + "1," * 10_000)
    assert len(str(raised.value)) < 700
