"""A player: responses, parked requests and the described group, in masked form."""

from collections.abc import Iterator

import pytest

from ottla.broker import Broker
from ottla.testing.group_scripts.comparison_run import make_topics
from ottla.testing.group_scripts.masks import Masks
from ottla.testing.group_scripts.player import CONFIG, Player, group_description
from ottla.testing.group_scripts.records import comparable_records, read_group_records
from ottla.testing.group_scripts.script import TOPICS
from ottla.testing.group_scripts.script_state import JOIN_GROUP, SYNC_GROUP, GroupDescription, Step

FETCH_ALL = Step(kind="fetch-all", api=9, version=2, values={"group_id": "g", "topics": None})


@pytest.fixture
def bootstrap_servers() -> Iterator[str]:
    with Broker(config=dict(CONFIG)) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def player(bootstrap_servers: str) -> Iterator[Player]:
    player = Player(bootstrap_servers, "g", Masks(make_topics(bootstrap_servers, TOPICS)))
    yield player
    player.close()


def join(member_id: str = "") -> Step:
    values = {
        "group_id": "g",
        "session_timeout": 60_000,
        "rebalance_timeout": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x"}],
    }
    return Step(kind="join", api=JOIN_GROUP, version=3, values=values, client_id="c1")


def sync(member_id: str) -> Step:
    assignments = [{"member_id": member_id, "assignment": b"all"}]
    values = {"group_id": "g", "generation_id": 1, "member_id": member_id, "assignments": assignments}
    return Step(kind="sync", api=SYNC_GROUP, version=1, values=values)


def test_a_member_joins_another_is_parked_and_records_follow(player: Player, bootstrap_servers: str) -> None:
    assert player.settle() == {}
    assert group_description(player.description) == GroupDescription()
    player.send({1: join()})
    first = player.settle_until(lambda answers: 1 in answers, 10)[1]
    assert (first["member_id"], first["leader"], first["generation_id"]) == ("c1-<1>", "c1-<1>", 1)
    player.send({2: sync("c1-<1>")})
    assert player.settle()[2]["assignment"] == b"all"
    assert group_description(player.description) == GroupDescription(state="Stable", protocol="range", members={"c1-<1>": None})
    player.send({3: join()})
    player.send({4: FETCH_ALL})
    assert player.settle().keys() == {4}
    assert group_description(player.description).members == {"c1-<1>": None, "c1-<2>": None}
    player.flush()
    player.end()
    player.send({5: join("c1-<1>")})
    assert player.settle().keys() == {3, 5}
    records = comparable_records(read_group_records(bootstrap_servers)["g"], player.masks)
    assert [record["value"]["generation"] for record in records] == [0, 1]
    assert records[1]["value"]["members"][0] | {"subscription": b"x", "assignment": b"all"} == records[1]["value"]["members"][0]
    assert [record["version"] for record in records] == [3, 3]


def test_responses_are_in_the_order_of_their_arrival(player: Player) -> None:
    player.send({1: FETCH_ALL, 2: FETCH_ALL})
    assert player.settle().keys() == {1, 2}
    player.send({4: FETCH_ALL})
    player._probe.call(18, 0)  # after its response, that to step 4 is there
    player.send({3: FETCH_ALL})
    assert list(player.settle()) == [4, 3]
    player.send({5: FETCH_ALL})
    assert list(player.touch() | player.settle()) == [5]


def test_records_after_the_end_do_not_count(player: Player, bootstrap_servers: str) -> None:
    player.end()
    player.send({1: join()})
    player.settle_until(lambda answers: 1 in answers, 10)
    assert "g" not in read_group_records(bootstrap_servers)


def test_a_topic_that_stays_is_waited_for_until_the_timeout(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.testing.group_scripts.player.GONE_SECONDS_MAX", 0.1)
    with pytest.raises(TimeoutError, match="flights"):
        player.wait_for_topics_gone(["flights"])
    player.wait_for_topics_gone(["no-such-topic"])
