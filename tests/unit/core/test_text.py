"""Text of others as one printable line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.text import printable


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
