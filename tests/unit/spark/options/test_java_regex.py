"""Java patterns, and the names that they match."""

import pytest

from ottla.spark.options.java_regex import compile_pattern

NAMES = ["orders", "orders.eu", "Orders-2", "payments_7", "a.b", "x"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", ["orders", "orders.eu"]),
        ("^orders$", ["orders"]),
        ("orders|payments.*", ["orders", "orders.eu", "payments_7"]),
        ("(?i)orders", ["orders", "orders.eu", "Orders-2"]),
        ("(?i:O)rders-", ["Orders-2"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"^\Qa.b", ["a.b"]),
        (r"^\p{Upper}", ["Orders-2"]),
        (r"^[\p{Alpha}_]+\z", ["orders", "x"]),
        (r"^\P{Lower}", ["Orders-2"]),
        (r"(?<c>s)\.|_(?<d>\d)", ["orders.eu", "payments_7"]),
        (r"(?<l>r)de\k<l>", ["orders", "orders.eu", "Orders-2"]),
        (r"^\w++$", ["orders", "payments_7", "x"]),
        (r"^(?>o|or)d", []),
        (r"^.{1,3}$", ["a.b", "x"]),
        (r"[.\-]", ["orders.eu", "Orders-2", "a.b"]),
        (r"\x61\x{2e}\u0062", ["a.b"]),
        (r"^(?!o)(?=.*s$|x)(?<!a)", ["x"]),
        (r"\[", []),
    ],
)
def test_the_names_that_java_finds(pattern: str, found: list[str]):
    assert [name for name in NAMES if compile_pattern(pattern).search(name)] == found


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("[a-z&&[^b]]", "&& inside of ["),
        ("[a[b]]", "[ inside of ["),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        (r"a\Rb", r"\R"),
        (r"\G", r"\G"),
        (r"\0", r"\0"),
        ("a(?i)b", "(?i) at the beginning"),
        ("(?P<n>a)", "(?P<"),
        ("(?x)a b", "(?x)"),
        ("a{,3}", "no {n}"),
        ("a{", "no {n}"),
        ("(?<=a+)b", "look-behind"),
        ("[a", "a [ without its ]"),
        ("(a", "missing )"),
        ("a\\", "nothing behind it"),
        (r"(?<n", "without its >"),
        (r"\x{zz}", "invalid literal"),
        (r"\x{110000}", "chr()"),
    ],
)
def test_invalid_properties_are_refused_by_name(pattern: str, named: str):
    with pytest.raises(ValueError) as raised:
        compile_pattern(pattern)
    assert named in str(raised.value)
