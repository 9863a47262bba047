"""Bootstrap lists, valid and malformed."""

import pytest

from ottla.client.addresses import Address, parse_addresses


def test_several_addresses() -> None:
    assert parse_addresses("a:1, b.c:65535,[::1]:9092") == [Address("a", 1), Address("b.c", 65535), Address("::1", 9092)]


@pytest.mark.parametrize("text", ["", "a", "a:", ":1", "a:x", "a:65536", "a:1,,b:2", "a:²"])
def test_malformed_addresses(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no host:port"):
        parse_addresses(text)
