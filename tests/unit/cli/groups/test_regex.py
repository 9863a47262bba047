"""Regular expressions by the rules of RE2."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.groups.regex import Re2Error, check_re2

VALID = [
    *("", "test.*", "^(a|b)$", "a{0,1000}", "a+b", "(?i:x)*?", "(?P<name>a)(?<other>b)", r"[]a-z\d[:alpha:]-]", "a{2}{", "{2,1|x{,2}"),
    *(r"\Q*+\E", r"\pN\p{Greek}\P{^Lu}\p{Any}", r"\x41\x{10FFFF}", r"\012\0", r"\_\.\A\z\b", "[^]a]", "(?s).*", "a(?i)*", "(|a)"),
    *(r"[\\-\]]", r"é\é", "a||b", "()", "(?)", "a{01}", "a-b]"),
]


@pytest.mark.parametrize("expression", VALID)
def test_valid_ones(expression: str) -> None:
    check_re2(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?<!a)", "invalid named capture"),
        ("(?i-)a", "invalid or unsupported Perl syntax"),
        ("(?P<n", "invalid named capture"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("[", "missing closing ]"),
        ("[a", "missing closing ]"),
        ("[]", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("[[:nope:]]", "invalid character class range"),
        (r"\p{Nope}", "invalid character class range"),
        (r"\pX", "invalid character class range"),
        (r"\1", "invalid escape sequence"),
        (r"\e", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        (r"\x{110000}", "invalid escape sequence"),
        ("\\", "trailing backslash at end of expression"),
        ("*a", "missing argument to repetition operator"),
        ("(|*)", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("{*", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{2,1}", "invalid repeat count"),
        ("a{" + "9" * 5000 + "}", "invalid repeat count"),
    ],
)
def test_invalid_ones_and_why(expression: str, reason: str) -> None:
    with pytest.raises(Re2Error) as raised:
        check_re2(expression)
    assert str(raised.value) == reason


@given(st.text(st.sampled_from(list("ab*+?{}()[]^$|-\\dpQEx0129,:<>P.i="))))
def test_any_text_has_a_verdict(text: str) -> None:
    with suppress(Re2Error):
        check_re2(text)


@pytest.mark.conformance("ConsumerGroupCommandTest.testValidateRegexCommandWithValidRegex")
def test_a_valid_one(groups: Any) -> None:
    assert groups.run("--validate-regex", "foo.*") == (0, "The regular expression `foo.*` is valid.\n", "")


@pytest.mark.conformance("ConsumerGroupCommandTest.testValidateRegexCommandWithInvalidRegex")
def test_an_invalid_one(groups: Any) -> None:
    assert groups.run("--validate-regex", "[foo.*") == (0, "The regular expression `[foo.*` is invalid: missing closing ].\n", "")
    ran = groups.run("--validate-regex", "[foo.*", "--json")
    assert (ran.status, json.loads(ran.out)) == (0, {"regex": "[foo.*", "valid": False, "reason": "missing closing ]"})
