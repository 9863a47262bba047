"""A comparison of the broker with itself finds no difference; with one that answers wrongly, every wrong answer."""

import re
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue
from trials.group_scripts.comparison import ComparisonRun, comparable_records, differences, make_topics, out_of_order, read_group_records
from trials.group_scripts.known_differences import (
    ARBITRARY_LEADER,
    LEFT_WHILE_SYNCING,
    SUPERSEDED,
    UNREADABLE,
    LastLeader,
    reason_for_missing,
    reason_to_end,
)
from trials.group_scripts.player import CONFIG, Masks, Player
from trials.group_scripts.script import Script
from trials.group_scripts.script_state import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP, UNREADABLE_SUBSCRIPTION, Step

SEEDS = (3, 5, 8)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    """On asyncio's own loop, which writes responses in the order in which they are made."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "uvloop", None)
        with Broker(config=dict(CONFIG)) as one, Broker(config=dict(CONFIG)) as other:
            yield one.bootstrap_servers, other.bootstrap_servers


@pytest.fixture
def lies(monkeypatch: pytest.MonkeyPatch, brokers: tuple[str, str]) -> Callable[[Callable[[dict[str, Any]], None]], None]:
    """`lies(change)` lets the second broker's answers be changed before they are compared."""

    def lie(change: Callable[[dict[str, Any]], None]) -> None:
        honest = Player._comparable

        def said(player: Player, answer: Any) -> Any:
            masked = honest(player, answer)
            if player.bootstrap_servers == brokers[1]:
                change(masked)
            return masked

        monkeypatch.setattr(Player, "_comparable", said)

    return lie


def test_a_broker_does_not_differ_from_itself(brokers: tuple[str, str]) -> None:
    match = ComparisonRun(*brokers, "self", threads=3)
    match.play(SEEDS)
    match.compare_records()
    assert match.report() == ""
    assert match.too_slow == []
    assert sum(match.kinds.values()) > 30
    assert match.explained.keys() == set()
    assert match.pairs > 10


def test_a_wrong_response_is_found_with_its_step(brokers: tuple[str, str], lies: Any) -> None:
    lies(lambda answer: answer.update(generation_id=7) if "generation_id" in answer else None)
    match = ComparisonRun(*brokers, "lie", threads=3)
    match.play(SEEDS)
    report = match.report()
    assert "generation_id: 7 and should be" in report
    assert "seed 3:" in report
    assert "(join" in report


def test_responses_in_another_order_are_found(brokers: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Player.settle

    def settle(player: Player) -> dict[int, Any]:
        answers = honest(player)
        return dict(reversed(answers.items())) if player.bootstrap_servers == brokers[1] else answers

    monkeypatch.setattr(Player, "settle", settle)
    match = ComparisonRun(*brokers, "order", threads=3)
    match.play(SEEDS)
    assert re.search(r"step \d+ \(\S+\) is answered before step \d+ \(\S+\) and should be answered after it", match.report())


def test_records_that_differ_are_found(brokers: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    match = ComparisonRun(*brokers, "records", threads=3)
    match.play(SEEDS)
    read = read_group_records

    def read_without_the_last(bootstrap_servers: str) -> Any:
        found = read(bootstrap_servers)
        if bootstrap_servers == brokers[1]:
            found["records-3-0"].pop()
        return found

    monkeypatch.setattr("trials.group_scripts.comparison.read_group_records", read_without_the_last)
    match.compare_records()
    assert "records of records-3-0" in match.report()
    assert [outcome.seed for outcome in match.outcomes if outcome.differences] == [3]


def test_topics_are_created_once(brokers: tuple[str, str]) -> None:
    first = make_topics(brokers[0], {"once": 2})
    assert make_topics(brokers[0], {"once": 2}) == first


def test_scripts_use_the_topic_that_they_delete() -> None:
    own = [script.own_topic for seed in range(60) if (script := Script(seed, "g")).own_topic]
    assert own
    assert set(own) == {"g-gone"}


# --- known differences are matched narrowly: the same difference elsewhere is not known


def step(api: int, **values: Any) -> Step:
    return Step(kind="x", api=api, values=values)


def join(member_id: str = "m", metadata: bytes = b"") -> Step:
    return step(JOIN_GROUP, member_id=member_id, protocol_type="consumer", protocols=[{"name": "range", "metadata": metadata}])


def test_a_parked_request_that_is_superseded() -> None:
    busy = {"error_code": 27}
    assert reason_for_missing({1: join(), 2: join()}, 1, busy, None) == SUPERSEDED
    assert reason_for_missing({1: join(), 2: join("other")}, 1, busy, None) is None
    assert reason_for_missing({1: join(), 2: join()}, 2, busy, None) is None
    assert reason_for_missing({1: join(), 2: join()}, 1, {"error_code": 25}, None) is None
    assert reason_for_missing({1: join(), 2: join()}, 1, None, busy) is None


def test_a_member_that_leaves_while_it_syncs() -> None:
    unknown = {"error_code": 25}
    sync = step(SYNC_GROUP, member_id="static-1-<2>")
    for line in ({"member_id": "static-1-<2>"}, {"member_id": "", "group_instance_id": "static-1"}):
        assert reason_for_missing({1: sync, 2: step(LEAVE_GROUP, members=[line])}, 1, unknown, None) == LEFT_WHILE_SYNCING
    for line in ({"member_id": "other"}, {"member_id": "", "group_instance_id": "static-10"}):
        assert reason_for_missing({1: sync, 2: step(LEAVE_GROUP, members=[line])}, 1, unknown, None) is None
    assert reason_for_missing({1: step(HEARTBEAT, member_id="m")}, 1, unknown, None) is None


def test_what_ends_a_script() -> None:
    ours, theirs = ({"error_code": 0, "generation_id": 4, "leader": leader} for leader in "ab")
    gone, members = LastLeader(generation=3, leader="c"), {"a": None, "b": None}

    def ends(ours: Any, theirs: Any, last_leader: LastLeader = gone, members: Any = members) -> str | None:
        return reason_to_end({1: join()}, {1: theirs}, {1: ours}, last_leader, members)

    assert ends(ours, theirs) == ARBITRARY_LEADER
    assert ends(ours, theirs, members=members | {"c": "late and static"}) == ARBITRARY_LEADER
    assert ends(theirs, theirs) is None
    assert ends(ours, theirs, LastLeader(generation=4, leader="c")) is None
    assert ends(ours, theirs, LastLeader(generation=3, leader="b")) is None
    assert ends(ours, theirs, LastLeader()) is None
    assert ends(ours, theirs, members={"b": None}) is None
    assert ends(ours, theirs, members=members | {"c": None}) is None


def test_what_a_rebalance_waits_for() -> None:
    last_leader, members = LastLeader(), {"a": None}
    ours = {"error_code": 0, "generation_id": 1, "leader": "a"}
    failed = {"error_code": -1, "generation_id": -1, "leader": ""}
    assert reason_to_end({1: join(metadata=UNREADABLE_SUBSCRIPTION)}, {1: failed}, {1: ours}, last_leader, members) == UNREADABLE
    assert reason_to_end({1: join()}, {1: failed}, {1: ours}, last_leader, members) is None
    assert reason_to_end({1: join(metadata=UNREADABLE_SUBSCRIPTION)}, {}, {1: ours}, last_leader, members) == UNREADABLE
    assert reason_to_end({1: join()}, {}, {1: ours}, last_leader, members) is None


# --- the differences of two responses as text, and of two orders; whole comparisons are in test_comparison_run and with Apache Kafka


def test_the_same_is_the_same() -> None:
    answer = {"error_code": 0, "members": [{"id": "a"}]}
    assert list(differences(answer, {**answer}, "answer")) == []


def test_every_place_is_named_with_both_values() -> None:
    ours = {"error_code": 0, "members": [{"id": "a", "metadata": b""}, {"id": "b", "metadata": b""}]}
    theirs = {"error_code": 25, "members": [{"id": "a", "metadata": b"x"}, {"id": "b", "metadata": b""}]}
    assert list(differences(ours, theirs, "answer")) == [
        "answer.error_code: 0 and should be 25",
        "answer.members[0].metadata: b'' and should be b'x'",
    ]


def test_more_or_fewer_is_one_difference() -> None:
    assert len(list(differences([1], [1, 2], "list"))) == 1
    assert len(list(differences({"a": 1}, {"b": 1}, "fields"))) == 1


def test_pairs_that_were_answered_the_other_way_round() -> None:
    pairs = [(1, 3), (2, 3), (1, 4)]
    assert list(out_of_order([2, 1, 3, 4], pairs)) == []
    assert list(out_of_order([1, 3, 2, 4], pairs)) == [(3, 2)]
    assert list(out_of_order([4, 3, 2, 1], pairs)) == [(3, 1), (3, 2), (4, 1)]
    assert list(out_of_order([3, 1], [])) == []


# --- records in the form in which they are compared

TOPIC_ID = uuid.UUID(int=77)


def offset(partition: int, value: OffsetValue | None) -> tuple[int | None, OffsetRecord]:
    return None if value is None else 4, OffsetRecord(group_id="g", topic="t", partition=partition, value=value)


def test_times_and_ids_are_masked_and_other_fields_are_not() -> None:
    value = OffsetValue(
        offset=5, leader_epoch=2, metadata="a", commit_timestamp_ms=1_000, expire_timestamp_ms=1_300, topic_id=TOPIC_ID.bytes
    )
    (record,) = comparable_records([offset(1, value)], Masks({"t": TOPIC_ID}))
    assert (record["version"], record["topic"], record["partition"]) == (4, "t", 1)
    fields = {"offset": 5, "leader_epoch": 2, "metadata": "a", "topic_id": "<id of t>"}
    assert record["value"] == fields | {"commit_timestamp_ms": True, "expire_timestamp_ms": 300}


def test_tombstones_in_a_row_have_no_order_and_others_have() -> None:
    value = OffsetValue(offset=5, leader_epoch=2, metadata="a", commit_timestamp_ms=1_000)
    masks = Masks({})
    one = comparable_records([offset(1, None), offset(0, None), offset(2, value), offset(1, value)], masks)
    assert one == comparable_records([offset(0, None), offset(1, None), offset(2, value), offset(1, value)], masks)
    assert one != comparable_records([offset(0, None), offset(1, None), offset(1, value), offset(2, value)], masks)


def test_members_are_named_and_in_order() -> None:
    ids = [f"c-{uuid.UUID(int=number)}" for number in range(2)]
    masks = Masks({})
    for member_id in ids:
        masks.name_member(member_id)
    members = [
        MemberValue(
            member_id=member_id,
            instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=1,
            session_timeout_ms=2,
            subscription=b"",
            assignment=b"",
        )
        for member_id in ids
    ]

    def fields(*listed: MemberValue) -> object:
        state = {"protocol_type": "consumer", "generation": 1, "protocol": "range", "leader": ids[1], "current_state_timestamp_ms": 9}
        record = GroupMetadataRecord(group_id="g", value=GroupMetadataValue(**state, members=listed))
        return comparable_records([(3, record)], masks)

    assert fields(*members) == fields(*members[::-1])
    assert "'leader': 'c-<2>'" in str(fields(*members))
    assert comparable_records([(None, GroupMetadataRecord(group_id="g", value=None))], masks) == [
        {"version": None, "group": "g", "value": None}
    ]
