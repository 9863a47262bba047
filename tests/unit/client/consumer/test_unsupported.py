"""The table of properties that are not supported: none of them is supported, and each has advice."""

from ottla.client.consumer.properties import ALIASES, OWN
from ottla.client.consumer.unsupported import UNSUPPORTED
from ottla.client.settings import NAMES


def test_no_property_is_both() -> None:
    assert not UNSUPPORTED.keys() & (OWN | ALIASES.keys() | NAMES)


def test_each_has_advice() -> None:
    assert [name for name, advice in UNSUPPORTED.items() if len(advice) < 10] == []
