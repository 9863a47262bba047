"""Offsets in checkpoints: Ottla's, the JVM connector's, and invalid ones."""

import json

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.source.stream_offsets import CheckpointError, Offsets, from_json, in_checkpoint, recreated, to_json

OFFSETS = {TopicPartition("t", 10): 5, TopicPartition("t", 9): 23, TopicPartition("a", 0): 2**63 - 1}


def test_one_text_for_the_same_offsets():
    offsets = Offsets(OFFSETS, {"t": "id-t", "gone": "id-gone", "a": ""})
    text = '{"a": {"0": 9223372036854775807}, "t": {"9": 23, "10": 5}, "#topic_ids": {"t": "id-t"}}'
    assert json.dumps(to_json(offsets)) == text
    assert from_json(json.loads(text)) == Offsets(OFFSETS, {"t": "id-t"})
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_no_offsets():
    assert from_json(to_json(Offsets({}, {}))) == Offsets({}, {})


def test_what_comes_back_from_a_checkpoint():
    assert in_checkpoint(Offsets(OFFSETS, {"t": "1", "empty": "2", "a": ""})) == Offsets(OFFSETS, {"t": "1"})


def test_the_jvm_connector_s_offsets_have_no_ids():
    assert from_json(json.loads('{"t":{"1":5,"0":23}}')) == Offsets({TopicPartition("t", 0): 23, TopicPartition("t", 1): 5}, {})


@pytest.mark.parametrize(
    "value", [{"t": 5}, {"t": {"x": 5}}, {"t": {"0": "5"}}, {"t": {"0": -1}}, {"t": {"0": True}}, {"#topic_ids": 5}, {"t": None}]
)
def test_invalid_checkpoints(value: dict[str, object]):
    with pytest.raises(CheckpointError, match="Is the checkpoint one of another query"):
        from_json(value)


def test_an_error_shows_the_beginning_of_a_long_text():
    with pytest.raises(CheckpointError) as raised:
        from_json({"t": {str(number): "x" for number in range(10_000)}})
    assert len(str(raised.value)) < 700


def test_re_created_topics():
    before = Offsets(OFFSETS, {"t": "1", "a": "2", "gone": "3"})
    assert recreated(before, {"t": "9", "a": "2", "new": "4"}) == ["t"]
    assert recreated(Offsets(OFFSETS, {}), {"t": "9"}) == []
    assert recreated(before, {"t": ""}) == [], "a broker that has no ids"
