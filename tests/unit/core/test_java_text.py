import pytest

from ottla.core.java_text import java_hash, java_order


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("a", 97), ("[topic,0]", 2068025637), ("[topic,10]", -315715034), ("😀-group", -1198440043)]
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_java_orders_strings_by_utf_16_units() -> None:
    # U+FF5E is one unit above the surrogates that make up an emoji, though its code point is smaller.
    assert sorted(["\uff5e", "😀"], key=java_order) == ["😀", "\uff5e"]
    assert sorted(["b", "a", "aa"], key=java_order) == ["a", "aa", "b"]
