from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.groups.events import EventMember
from ottla.history.rounds.identity import Identity
from ottla.history.sources.model import Evidence, Kind, Source
from ottla.history.story.arrays import plain, unpack
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.story import StoryExtras, story
from ottla.history.verdicts.verdict import SettingAdvice

NAMES = "abc"
PARTITIONS = 4


def member(name: str, start: int, partitions: list[int]) -> EventMember:
    return EventMember(
        member_id=f"{name}-{start}",
        instance_id=None,
        client_id=name,
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=2,
        assignment={"t": partitions} if partitions else {},
    )


def assigned(generation: int, owners: list[str | None], start: int = 0, **fields: Any) -> Evidence:
    """The assignment of one generation: an owner for each partition."""
    names = sorted({name for name in owners if name is not None})
    members = tuple(member(name, start, [at for at, owner in enumerate(owners) if owner == name]) for name in names)
    kind = Kind.SYNC_COMPLETED if members else Kind.EMPTIED
    given_fields = {"kind": kind, "at_ms": generation * 1_000, "generation": generation, "members": members} | fields
    return Evidence(source=Source.GROUP_EVENTS, clock="b", group="g", **given_fields)


def owners_of(document: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The owner's name of each partition after each assignment, read as a page does."""
    arrays = document["assignments"]
    names = [f"{topic}-{partition}" for topic, partitions in document["topics"] for partition in partitions]
    current, read = [arrays["no_owner"]] * len(names), 0
    for index, whole in enumerate(arrays["is_whole"]):
        owners = arrays["owners"][arrays["starts"][index] : arrays["starts"][index + 1]]
        places = range(len(names)) if whole else arrays["places"][read : read + len(owners)]
        read += 0 if whole else len(owners)
        for place, owner in zip(places, owners, strict=True):
            current[place] = owner
        yield {name: document["members"][row]["name"] for name, row in zip(names, current, strict=True) if row != arrays["no_owner"]}


owners = st.lists(st.none() | st.sampled_from(NAMES), min_size=PARTITIONS, max_size=PARTITIONS)


@given(st.lists(st.tuples(owners, st.integers(0, 1)), min_size=1, max_size=8))
def test_the_owners_of_every_assignment_are_those_of_the_evidence(generations: list[tuple[list[str | None], int]]) -> None:
    evidence = [assigned(number, owner, start) for number, (owner, start) in enumerate(generations, 1)]
    told = story("g", evidence, [])
    wanted = [{f"t-{at}": name for at, name in enumerate(owner) if name is not None} for owner, _ in generations]
    for document in (told.to_dict(), plain(unpack(told.to_bytes()))):
        assert list(owners_of(document)) == wanted


def test_it_ends_stable_or_empty_and_covers_all_its_evidence() -> None:
    told = story("g", [assigned(1, ["a", "b"]), assigned(2, ["a", "a"])], []).document
    assert (told["state"], told["facts"]) == ("Stable, generation 2", "2 members · 2 partitions · 0 rebalances")
    assert told["from_ms"] < 1_000 < 2_000 < told["to_ms"]
    assert story("g", [assigned(1, ["a"]), assigned(2, [None])], []).document["state"] == "Empty"
    assert story("g", [], []).document["state"] == "Unknown"


def test_time_without_members_is_not_drawn_and_time_with_them_is() -> None:
    loaded = assigned(60, [None], kind=Kind.LOADED)
    assert story("g", [assigned(1, ["a"]), assigned(2, [None]), loaded], []).document["to_ms"] < 4_000
    assert story("g", [assigned(1, ["a"]), replace(loaded, kind=Kind.TRIGGER, members=None)], []).document["to_ms"] > 60_000


def test_silences_of_verdicts_are_added_to_those_of_the_source() -> None:
    lost = StoryRebalance(
        started_ms=2_000, silent_ms=500, member=Identity("a-0", None, None, None), advice=(SettingAdvice("s", "9", "why"),), planned=False
    )
    document = story("g", [assigned(1, ["a"])], [lost], StoryExtras(clocks=["one clock is ahead"])).document
    assert (document["silent"], document["clocks"]) == ([[0, 1_500, 2_000]], ["one clock is ahead"])
    assert document["ledger"] == [[0, "a", 1, 0.0, "s = 9"]]
    assert document["advice"] == [["Set s to 9. why", 1, 0.0]]


def test_namesakes_get_numbers() -> None:
    members = tuple(replace(member("a", start, [start]), client_host=f"/h{start}") for start in range(2))
    told = story("g", [replace(assigned(1, ["a"]), members=members)], [])
    assert [each["name"] for each in told.document["members"]] == ["a #1", "a #2"]
