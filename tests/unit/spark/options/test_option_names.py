"""The nearest name for an unknown option."""

import pytest

from ottla.spark.options.option_names import unknown_option

OPTIONS, PROPERTIES = ("startingOffsets", "subscribe"), ("bootstrap.servers", "isolation.level")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("startingOffset", "The option \"startingOffset\" is not supported; did you mean 'startingOffsets'?"),
        ("Isolation.Level", 'it is a property of the Kafka client, write "kafka.Isolation.Level".'),
        ("bootstrap.server", "did you mean 'kafka.bootstrap.servers'?"),
        ("moon", 'The option "moon" is not supported; the options are startingOffsets, subscribe and kafka.*: leave it out.'),
    ],
)
def test_an_unknown_option(name: str, message: str):
    assert message in unknown_option(name, OPTIONS, PROPERTIES)


def test_where_it_is_unknown():
    assert unknown_option("moon", ("topic",), (), where=" for writing").startswith('The option "moon" is not supported for writing; the')
