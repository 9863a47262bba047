"""OffsetForLeaderEpoch: where epochs ended, and what is said to those whose epoch is not ours."""

import pytest

from ottla.protocol.wire.api_keys import ApiKey


@pytest.fixture
def filled(api, make_topic, batch):
    """Epoch 0 has offsets 0 and 1, epoch 3 has 2, epoch 7 has 3."""
    make_topic("t")
    log = api.cluster.partitions.by_name("t", 0).log
    for epoch in (0, 0, 3, 7):
        log.leader_epoch = epoch
        log.append(bytearray(batch(b"v")), now_ms=0, from_client=False)
    return api


def ask(api, epoch: int, *, present: int = -1, version: int = 4, topic: str = "t", partition: int = 0):
    parts = [{"partition": partition, "current_leader_epoch": present, "leader_epoch": epoch}]
    answer = api.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=[{"topic": topic, "partitions": parts}])
    (part,) = answer.topics[0].partitions
    assert (answer.topics[0].topic, part.partition) == (topic, partition)
    return int(part.error_code), part.leader_epoch, part.end_offset


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(
    ("epoch", "found"), [(0, (0, 0, 2)), (2, (0, 0, 2)), (3, (0, 3, 3)), (7, (0, 7, 4)), (8, (0, -1, -1)), (-1, (0, -1, -1))]
)
def test_where_an_epoch_ended(filled, version: int, epoch: int, found) -> None:
    assert ask(filled, epoch, version=version) == found


@pytest.mark.parametrize(("present", "error"), [(7, 0), (6, 74), (8, 75)])
def test_the_present_epoch_is_checked(filled, present: int, error: int) -> None:
    assert ask(filled, 0, present=present)[0] == error


def test_a_log_that_was_never_written_is_in_its_first_epoch(api, make_topic) -> None:
    make_topic("t")
    assert ask(api, 0) == (0, 0, 0)


@pytest.mark.parametrize(("topic", "partition"), [("gone", 0), ("t", 5)])
def test_what_is_not_there(filled, topic: str, partition: int) -> None:
    assert ask(filled, 0, topic=topic, partition=partition) == (3, -1, -1)
