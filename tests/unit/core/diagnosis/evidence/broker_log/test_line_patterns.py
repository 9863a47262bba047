"""Pieces of the coordinator's lines: lists of members and optional values as Java and Scala print them."""

import re

import pytest

from ottla.core.diagnosis.evidence.broker_log.line_patterns import MEMBER, member_ids, option, rule
from ottla.core.diagnosis.evidence.broker_log.memory import Memory

UUID = "0a1b2c3d-0000-4000-8000-00000000000"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", ()),
        ("[]", ()),
        ("m1", ("m1",)),
        ("[m1, m2]", ("m1", "m2")),
        ("Set(m1, m2)", ("m1", "m2")),
        ("HashSet(m1)", ("m1",)),
        (f"a, b-{UUID}1, c-{UUID}2", (f"a, b-{UUID}1", f"c-{UUID}2")),
    ],
)
def test_lists_of_members(text: str, ids: tuple[str, ...]) -> None:
    assert member_ids(text) == ids


@pytest.mark.parametrize(
    ("text", "value"), [(None, None), ("None", None), ("null", None), ("Some(a)", "a"), ("Some(a))", "a)"), ("a", "a")]
)
def test_optional_values(text: str | None, value: str | None) -> None:
    assert option(text) == value


def test_a_member_id_ends_with_its_uuid() -> None:
    found = re.match(rf"{MEMBER} in group", f"c in group x-{UUID}1 in group g")
    assert found is not None
    assert found["member"] == f"c in group x-{UUID}1"


def test_a_rule_is_for_the_whole_message_with_or_without_a_stop() -> None:
    made = rule("[Word", r" (?P<n>\d+)", lambda found, _: ({"n": found["n"]},))
    texts = ["[Word 1", "[Word 2.", "[Word 3 more", "Word 4"]
    found = [made.facts(each, Memory())[0]["n"] for text in texts if (each := made.pattern.match(text))]
    assert (made.word, found) == ("[Word", ["1", "2"])
