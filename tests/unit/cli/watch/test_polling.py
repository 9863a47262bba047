"""Tests of looks at groups by the admin API."""

from typing import Any

from ottla.cli.watch.polling import Poller
from ottla.client.admin.values import CommittedOffset, Failure
from ottla.client.errors import UnknownTopicError
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

PARTITION = TopicPartition("t", 0)


def poller(cluster: Any, notes: list[str], groups: list[str] | None = None) -> Poller:
    return Poller(cluster, groups=groups, now_ms=lambda: 5, note=notes.append)


def test_a_group_with_its_members_offsets_and_ends(cluster: Any) -> None:
    cluster.set_group("g", "m2", "m1")
    cluster.offsets["g"] = {PARTITION: CommittedOffset(7), TopicPartition("deleted", 0): CommittedOffset(3)}
    cluster.add("t", 0, (b"k", b"v"), (b"k", b"v"))
    notes: list[str] = []
    looking = poller(cluster, notes)
    (found,) = looking.look()
    assert (found.at_ms, found.group, found.group_type, found.state, found.protocol) == (5, "g", "classic", "Stable", "range")
    assert [each.member_id for each in found.members] == ["m1", "m2"]
    assert found.members[0].assignment == {"t": (0,)}
    assert found.committed == {PARTITION: 7, TopicPartition("deleted", 0): 3}
    assert found.ends == {PARTITION: 2}
    assert looking.topic_names == {"id-t": "t"}
    assert notes == []


def test_a_look_without_offsets_asks_for_none(cluster: Any, monkeypatch: Any) -> None:
    cluster.set_group("g", "m")
    monkeypatch.delattr(type(cluster), "committed")
    monkeypatch.delattr(type(cluster), "list_offsets")
    (found,) = poller(cluster, []).look(with_offsets=False)
    assert (found.group, found.committed, found.ends) == ("g", {}, {})


def test_chosen_groups_need_not_exist(cluster: Any) -> None:
    cluster.set_group("g", "m")
    cluster.set_group("h", "m")
    cluster.set_group("dead", state="Dead")
    notes: list[str] = []
    assert [each.group for each in poller(cluster, notes, ["h", "missing", "dead"]).look()] == ["h"]
    assert notes == []


def test_a_group_that_may_not_be_described_is_named_once(cluster: Any) -> None:
    cluster.groups["secret"] = Failure(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    notes: list[str] = []
    looking = poller(cluster, notes)
    assert looking.look() == looking.look() == []
    assert notes == ["group secret may not be described: GROUP_AUTHORIZATION_FAILED"]


def test_groups_are_stored_without_ends_that_are_not_known(cluster: Any, monkeypatch: Any) -> None:
    cluster.set_group("g", "m")

    def refuse(*_: Any) -> None:
        raise UnknownTopicError("topic t does not exist")

    monkeypatch.setattr(cluster, "list_offsets", refuse)
    notes: list[str] = []
    looking = poller(cluster, notes)
    assert [each.ends for each in (*looking.look(), *looking.look())] == [{}, {}]
    assert notes == ["the ends of logs are not known: topic t does not exist"]
