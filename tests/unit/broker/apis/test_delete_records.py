"""DeleteRecords: logs begin later, for those who read and those who ask; and who is refused."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.fixture
def filled(api, make_topic, batch):
    make_topic("t", 2)
    log = api.cluster.partitions.by_name("t", 0).log
    for number in range(6):
        log.append(bytearray(batch(b"%d" % number)), now_ms=0, from_client=False)
    return api


def ask(api, *asked: tuple[int, int], topic: str = "t", version: int = 2):
    parts = [{"partition_index": number, "offset": offset} for number, offset in asked]
    (answered,) = api.ask(ApiKey.DELETE_RECORDS, version, topics=[{"name": topic, "partitions": parts}], timeout=1000).topics
    assert answered.name == topic
    return [(part.partition_index, int(part.error_code), part.low_watermark) for part in answered.partitions]


def earliest(api) -> int:
    parts = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}]
    (answered,) = (
        api.ask(ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": parts}]).topics[0].partitions
    )
    return answered.offset


@pytest.mark.parametrize("version", range(3))
def test_the_new_start_is_seen_at_once(filled, version: int) -> None:
    assert ask(filled, (0, 4), version=version) == [(0, 0, 4)]
    assert earliest(filled) == 4


def test_all_of_it(filled) -> None:
    assert ask(filled, (0, -1), (1, -1)) == [(0, 0, 6), (1, 0, 0)]
    assert earliest(filled) == 6


def test_the_start_does_not_go_back(filled) -> None:
    ask(filled, (0, 4))
    assert ask(filled, (0, 2)) == [(0, 0, 4)]


@pytest.mark.parametrize(("number", "offset", "error"), [(0, 7, 1), (0, -2, 1), (7, 0, 3)])
def test_what_cannot_be(filled, number: int, offset: int, error: int) -> None:
    assert ask(filled, (number, offset)) == [(number, error, -1)]
    assert earliest(filled) == 0


def test_an_unknown_topic(api) -> None:
    assert ask(api, (0, 0), topic="gone") == [(0, 3, -1)]


def test_the_last_word_counts(filled) -> None:
    assert ask(filled, (0, 5), (0, 3)) == [(0, 0, 3)]


@pytest.mark.parametrize(("policy", "error"), [("compact", 44), ("compact,delete", 0), ("delete", 0)])
def test_a_topic_that_is_only_compacted_keeps_its_records(api, make_topic, policy: str, error: int) -> None:
    make_topic("kept", configs={"cleanup.policy": policy})
    assert ask(api, (0, 0), topic="kept")[0][1] == error


def test_internal_topics_are_the_brokers_own(api, commit, make_topic) -> None:
    make_topic("t")
    api.ask(ApiKey.FIND_COORDINATOR, 0, key="g")
    assert ask(api, (0, 0), topic="__consumer_offsets") == [(0, 17, -1)]
