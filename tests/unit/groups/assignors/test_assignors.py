"""The package: finding assignors by name, users' own among them, and defaults."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber, assignors, find_assignor
from ottla.groups.assignors._checks import AssignorError, checked_assignment
from tests.examples import by_region


class Everything(Assignor):
    """A user's own."""

    name = "everything-to-the-first"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        first = min(each.member_id for each in members)
        everything = {topic: list(range(count)) for topic, count in partitions.items()}
        return {each.member_id: everything if each.member_id == first else {} for each in members}


class Unnamed(Everything):
    name = ""


class Unfinished(Assignor):
    name = "unfinished"


def test_every_assignor_is_found_by_its_kafka_name() -> None:
    assert {name: each.is_cooperative for name, each in assignors().items()} == {
        "range": False,
        "roundrobin": False,
        "sticky": False,
        "cooperative-sticky": True,
    }
    assert find_assignor("sticky") is assignors()["sticky"]


def test_a_users_own_is_named_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_assignors.py").write_text(
        "from ottla.groups.assignors import Assignor\n"
        "class Mine(Assignor):\n"
        "    name = 'mine'\n"
        "    def assign(self, members, partitions, racks):\n"
        "        return {each.member_id: {} for each in members}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = find_assignor("my_assignors:Mine")
    assert (found.name, found.is_cooperative) == ("mine", False)
    assert found.assign([Subscriber(member_id="a", topics=frozenset())], {}, {}) == {"a": {}}
    sys.modules.pop("my_assignors")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stickey", "did you mean 'sticky'"),
        ("nowhere:Mine", "cannot be imported"),
        (":Mine", "cannot be imported"),
        (f"{__name__}:Missing", "must be a subclass"),
        (f"{__name__}:pytest", "must be a subclass"),
        (f"{__name__}:Unfinished", "abstract"),
        (f"{__name__}:Unnamed", "set `name`"),
    ],
)
def test_what_is_no_assignor_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        find_assignor(name)


def test_the_example_of_the_page_about_assignors() -> None:
    page = (Path(__file__).parents[4] / "docs" / "assignors.md").read_text()
    assert page.split("```python\n")[1].split("```")[0] == Path(by_region.__file__).read_text(), "mypy reads it there"
    members = [Subscriber(member_id=each, topics=frozenset({"t"}), rack=rack) for each, rack in (("a", "west"), ("b", "east"))]
    assert by_region.ByRegion().assign(members, {"t": 3}, {}) == {"a": {"t": [1]}, "b": {"t": [0, 2]}}


class Giving(Assignor):
    """Gives what a test says."""

    name = "giving"

    def __init__(self, given: Any, *, is_cooperative: bool = False) -> None:
        self.given = given
        self.is_cooperative = is_cooperative

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        return self.given()  # type: ignore[no-any-return]


A = Subscriber(member_id="a", topics=frozenset({"t", "u"}), owned={"t": [1]}, generation=3)
B = Subscriber(member_id="b", topics=frozenset({"t"}))
WHOLE = {"a": {"t": [1], "u": [0]}, "b": {"t": [0]}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (WHOLE | {"b": {"t": [0, 1]}}, "t-1 to both a and b"),
        (WHOLE | {"b": {}}, "t-0 to no member, so that nothing reads it"),
        (WHOLE | {"c": {"t": [0]}}, "an assignment to 'c', which is no member of the group"),
        (WHOLE | {"b": {"t": [0, 2]}}, "t-2 to b, but t has the partitions 0 to 1"),
        (WHOLE | {"b": {"t": [0], "v": [0]}}, "v-0 to b, but there is no such topic"),
        ({"a": {"t": [1]}, "b": {"t": [0], "u": [0]}}, "u-0 to b, which does not subscribe to u"),
        (None, "None: it must give a dictionary of partition numbers by topic for each member id"),
        ({"a": [("t", 0)]}, "it must give a dictionary"),
        (WHOLE | {"b": {"t": ["0"]}}, "it must give a dictionary"),
    ],
)
def test_what_is_no_assignment_is_refused(given: Any, said: str) -> None:
    with pytest.raises(AssignorError) as refused:
        checked_assignment(Giving(lambda: given), [A, B], {"t": 2, "u": 1})
    assert str(refused.value).startswith(f"the assignor giving ({__name__}:Giving) gave ")
    assert said in str(refused.value)


def test_an_assignment_is_taken_as_it_is_given() -> None:
    assert checked_assignment(Giving(lambda: WHOLE), [A, B], {"t": 2, "u": 1, "no-subscriber": 1}) == WHOLE
    left_out = {"a": {"u": {0}}, "b": {"t": (0,)}}
    found = checked_assignment(Giving(lambda: left_out, is_cooperative=True), [A, B], {"t": 2, "u": 1})
    assert found == {"a": {"u": [0]}, "b": {"t": [0]}}, "a cooperative one leaves out what has to be revoked first"
    with pytest.raises(AssignorError, match="t-1 to no member"):
        checked_assignment(Giving(lambda: left_out), [A, B], {"t": 2, "u": 1})


def test_an_error_names_the_assignor() -> None:
    with pytest.raises(AssignorError, match=r"the assignor giving \(.*:Giving\) raised ZeroDivisionError: ") as raised:
        checked_assignment(Giving(lambda: 1 // 0), [A], {})
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_user_data_is_an_assignors_own_business() -> None:
    member = Subscriber(member_id="a", topics=frozenset({"t"}), owned={"t": [1]}, generation=3)
    assert Everything().user_data({"t": [1]}, 3) is None
    assert Everything().with_user_data(member, b"anything") == member


def test_members_order_as_java_orders_strings() -> None:
    names = ["\uff5e", "😀", "b", "a"]
    found = sorted((Subscriber(member_id=each, topics=frozenset()) for each in names), key=lambda each: each.order)
    assert [each.member_id for each in found] == ["a", "b", "😀", "\uff5e"]
