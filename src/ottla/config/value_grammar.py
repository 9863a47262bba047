"""Parses the text of a value as Kafka does: the grammar of each type, as in ConfigDef.parseType and the Java methods that it calls.

Python's own spellings (1_000, inf) are refused, since an Apache Kafka that opens the same directory could not read them; Java's (+7, 1e3f,
0x1p-1, a number in Arabic digits) are accepted.
"""

import re
from typing import Final

_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes at both ends."""
_AROUND_COMMAS: Final = " \t\n\x0b\f\r"
_BMP_LAST: Final = "\uffff"
_DECIMAL: Final = re.compile(r"([+-]?)(NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_HEXADECIMAL: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def trim(text: str) -> str:
    """The text without blanks and control characters at its ends."""
    return text.strip(_TRIMMED)


def parse_boolean(text: str) -> bool:
    """true or false, in any case. Raises ValueError."""
    word = trim(text)
    for value in (True, False):
        # As Java's equalsIgnoreCase, which goes by single characters in upper case.
        if len(word) == len(str(value)) and word.upper() == str(value).upper():
            return value
    raise ValueError("neither true nor false")


def parse_whole(text: str, *, bits: int) -> int:
    """A whole number that fits into so many bits. Raises ValueError."""
    word = trim(text)
    digits = word[1:] if word[:1] in ("+", "-") else word
    if not digits.isdecimal() or not (digits.isascii() or max(digits) <= _BMP_LAST):
        raise ValueError("no whole number")
    significant = (digits if digits.isascii() else "".join(str(int(digit)) for digit in digits)).lstrip("0")
    limit = 1 << (bits - 1)
    if len(significant) > len(str(limit)):
        raise ValueError(f"more than {bits} bits")
    number = -int(significant or "0") if word[0] == "-" else int(significant or "0")
    if not -limit <= number < limit:
        raise ValueError(f"more than {bits} bits")
    return number


def parse_double(text: str) -> float:
    """A number with a fraction, as Double.parseDouble reads it. Raises ValueError."""
    word = trim(text)
    found = _DECIMAL.fullmatch(word)
    if found is not None and not (found[2][0] in "NI" and word[-1] in "fFdD"):
        return float(found[1] + found[2])
    found = _HEXADECIMAL.fullmatch(word)
    if found is None:
        raise ValueError("no number")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return float("-inf" if word[0] == "-" else "inf")


def parse_list(text: str) -> tuple[str, ...]:
    """The items between commas; none of an empty text."""
    word = trim(text)
    return tuple(item.strip(_AROUND_COMMAS) for item in word.split(",")) if word else ()


def double_text(number: float) -> str:
    """A number as Java writes it: 0.5, 1.0E10, Infinity."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return repr(number)
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"
