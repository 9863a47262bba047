"""The offsets of a member's batches as JSON, and those of other queries read as such."""

import json

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.group.progress import Processed
from ottla.spark.source.member_offsets import Batch, batch_from_json, batch_to_json
from ottla.spark.source.stream_offsets import CheckpointError, Offsets, from_json

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = {"t": "id-of-t"}


def test_a_batch_as_json_and_back() -> None:
    batch = Batch(Offsets({ZERO: 23, ONE: 5}, IDS), {ZERO: 20}, {ZERO: 20, ONE: 5})
    value = json.loads(json.dumps(batch_to_json(batch, generation=7, member_id="m")))
    assert value == {
        "t": {"0": 23, "1": 5},
        "#topic_ids": IDS,
        "#member": {"starts": {"t": {"0": 20}}, "generation": 7, "member_id": "m"},
    }
    again = batch_from_json(value)
    assert (again.ends, again.starts) == (batch.ends, batch.starts)
    assert again.processed() == batch.processed() == {ZERO: Processed(20, 23), ONE: Processed(5, 5)}


def test_commits_that_had_failed_are_kept() -> None:
    batch = Batch(Offsets({ZERO: 23, ONE: 5}, IDS), {ZERO: 20}, {ZERO: 11, ONE: 2})
    value = batch_to_json(batch, generation=7, member_id="m")
    assert value["#member"]["committed"] == {"t": {"0": 11, "1": 2}}
    assert batch_from_json(value).processed() == {ZERO: Processed(11, 23), ONE: Processed(2, 5)}


def test_a_checkpoint_of_commit_mode_or_of_the_jvm_connector() -> None:
    batch = batch_from_json({"t": {"0": 23}, "#topic_ids": IDS})
    assert batch == Batch(Offsets({ZERO: 23}, IDS), {}, None)
    assert batch.processed() == {ZERO: Processed(0, 23)}
    assert batch_from_json({"t": {"0": 23}}).ends.by_partition == {ZERO: 23}


def test_commit_mode_refuses_a_member_s_checkpoint() -> None:
    with pytest.raises(CheckpointError, match="this checkpoint is one of a query"):
        from_json(batch_to_json(Batch(Offsets({ZERO: 1}, IDS), {}, {}), generation=1, member_id="m"))


@pytest.mark.parametrize(
    "value", [{"#member": 5}, {"#member": {"starts": {"t": {"0": -1}}}}, {"#member": {"committed": {"t": 3}}}, {"t": 3}]
)
def test_what_is_no_batch(value: dict[str, object]) -> None:
    with pytest.raises(CheckpointError):
        batch_from_json(value)
