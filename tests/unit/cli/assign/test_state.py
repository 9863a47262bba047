import json

import pytest

from ottla.cli.assign.state import State, parse_state, state_document
from ottla.core.assignors import Subscriber

TEXT = """{
  "topics": {"orders": 6, "payments": {"partitions": 2, "racks": [["a"], ["a", "b"]]}},
  "members": [
    {"member_id": "c1", "topics": ["orders", "payments"], "instance_id": "one", "rack": "a", "owned": {"orders": [1, 0]}, "generation": 3},
    {"member_id": "c2", "topics": ["orders"]}
  ]
}"""
STATE = State(
    (
        Subscriber(
            member_id="c1", topics=frozenset({"orders", "payments"}), instance_id="one", rack="a", owned={"orders": (0, 1)}, generation=3
        ),
        Subscriber(member_id="c2", topics=frozenset({"orders"})),
    ),
    {"orders": 6, "payments": 2},
    {"payments": (frozenset("a"), frozenset("ab"))},
)


def test_members_and_topics() -> None:
    assert parse_state(TEXT) == STATE


def test_what_is_printed_is_read() -> None:
    assert parse_state(json.dumps(state_document(STATE))) == STATE
    assert parse_state(json.dumps({"state": state_document(STATE), "assignors": []})) == STATE


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "the file: write an object"),
        ({"members": []}, "topics: write an object"),
        ({"topics": {}}, "members: write a list"),
        ({"topics": {"t": "6"}, "members": []}, "topics: t: write an object"),
        ({"topics": {"t": -1}, "members": []}, "topics: t: write its number"),
        ({"topics": {"t": True}, "members": []}, "topics: t: write its number"),
        ({"topics": {"t": 900_000, "u": 900_000}, "members": []}, "more than 1000000 partitions"),
        ({"topics": {"t": {"partitions": 2, "racks": [["a"]]}}, "members": []}, "racks of 1 partitions, but it has 2"),
        ({"topics": {"t": {"partitions": 1, "racks": ["a"]}}, "members": []}, "t: racks: write a list"),
        ({"topics": {}, "members": [{"topics": []}]}, r"members\[0\]: has no member_id"),
        ({"topics": {}, "members": [{"member_id": "a"}]}, "member a: topics: write a list"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [1]}]}, "member a: topics: write a list of texts"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [], "owns": {}}]}, "member a: unknown: owns"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [], "owned": {"t": [-1]}}]}, "member a: owned: write lists of partition"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": [], "rack": 1}]}, "member a: generation is a number"),
        ({"topics": {}, "members": [{"member_id": "a", "topics": []}] * 2}, "'a' is there twice"),
    ],
)
def test_what_is_no_state_is_refused(document: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_state(document if isinstance(document, str) else json.dumps(document))
