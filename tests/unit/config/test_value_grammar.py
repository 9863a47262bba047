"""How values are read; tests/kafka/test_settings.py holds the same functions against Apache Kafka's own."""

import math
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.value_grammar import double_text, parse_boolean, parse_double, parse_list, parse_whole


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), ("-5", -5), (" 5\t", 5), ("\x005\x1f", 5), ("007", 7), ("-0", 0), ("\u0661\u0660", 10), ("0" * 5000 + "7", 7)],
)
def test_whole_numbers(text: str, number: int) -> None:
    assert parse_whole(text, bits=32) == number


@pytest.mark.parametrize(
    "text", ["", " ", "+", "-", "+-5", "- 5", "1_0", "0x10", "1e3", "5.0", "5\u00a0", "\U0001d7d3", "\u00b2", "9" * 5000, "5,0", "NaN"]
)
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match=r"no whole number|bits"):
        parse_whole(text, bits=32)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_whole_numbers_have_their_width(bits: int) -> None:
    for edge in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
        assert parse_whole(str(edge), bits=bits) == edge
    for beyond in (-(2 ** (bits - 1)) - 1, 2 ** (bits - 1)):
        with pytest.raises(ValueError, match=f"more than {bits} bits"):
            parse_whole(str(beyond), bits=bits)


def test_every_decimal_digit_of_the_basic_plane_counts() -> None:
    digits = [chr(point) for point in range(0x10000) if unicodedata.category(chr(point)) == "Nd"]
    assert len(digits) > 300
    assert [parse_whole(digit, bits=16) for digit in digits] == [unicodedata.decimal(digit) for digit in digits]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1E-3f", 0.001), ("+.5D", 0.5), ("0x1p-1", 0.5), ("0X.8p0d", 0.5)),
        *(
            ("-0x1.8p1", -3.0),
            ("Infinity", math.inf),
            ("-Infinity", -math.inf),
            ("1e999", math.inf),
            ("0x1p99999", math.inf),
            ("1e-999", 0),
        ),
    ],
)
def test_doubles(text: str, number: float) -> None:
    assert parse_double(text) == number


def test_nan_is_a_double() -> None:
    assert math.isnan(parse_double(" NaN "))


@pytest.mark.parametrize("text", ["", ".", "1e", "nan", "inf", "NaNf", "Infinityd", "1_0", "0x1", "0xp1", "\u0661", "1,5", "0.5L", "- 1"])
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        parse_double(text)


def test_an_endless_number_is_read_in_no_time() -> None:
    with pytest.raises(ValueError, match="no number"):
        parse_double("1" * 100_000 + "x")


@pytest.mark.parametrize(("text", "value"), [("true", True), (" TRUE ", True), ("False", False), ("fal\u017fe", False)])
def test_booleans(text: str, value: bool) -> None:
    assert parse_boolean(text) is value


@pytest.mark.parametrize("text", ["", "1", "yes", "tru", "truee", "on"])
def test_what_is_no_boolean(text: str) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        parse_boolean(text)


@pytest.mark.parametrize(
    ("text", "items"), [("", ()), (" \t", ()), ("a", ("a",)), (" a ,\tb\n", ("a", "b")), ("a,,b,", ("a", "", "b", "")), (",", ("", ""))]
)
def test_lists(text: str, items: tuple[str, ...]) -> None:
    assert parse_list(text) == items


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0.5, "0.5"), (1.0, "1.0"), (-0.0, "-0.0"), (1e10, "1.0E10"), (-1.25e-7, "-1.25E-7"), (0.001, "0.001"), (9999999.0, "9999999.0")),
        *((1e7, "1.0E7"), (1.7976931348623157e308, "1.7976931348623157E308"), (math.inf, "Infinity"), (math.nan, "NaN")),
    ],
)
def test_doubles_as_java_writes_them(number: float, text: str) -> None:
    assert double_text(number) == text


@given(st.floats(allow_nan=False))
def test_what_is_written_is_read_again(number: float) -> None:
    written = double_text(number)
    assert parse_double(written) == number
    assert math.isinf(number) or re.fullmatch(r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?", written)
