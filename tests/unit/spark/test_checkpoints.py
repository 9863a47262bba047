"""Checkpoints on their way back to Spark's own Kafka source; that it continues there: tests/spark/contract/test_differences.py."""

import json
from pathlib import Path

import pytest

from ottla.protocol.model import TopicPartition
from ottla.spark.checkpoints import convert
from ottla.spark.source.planning import CheckpointError

BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
IDS = '"#topic_ids":{"t":"0I-AcwY8RBGw_6y_FfFwNQ"}'


def checkpoint(directory: Path, *batches: str, committed: int) -> Path:
    """A checkpoint with these files of offsets."""
    for name in ("offsets", "commits"):
        (directory / name).mkdir()
    for number, batch in enumerate(batches):
        (directory / "offsets" / str(number)).write_text(batch)
        (directory / "offsets" / f".{number}.crc").write_text("crc")
        if number < committed:
            (directory / "commits" / str(number)).write_text("v1\n{}")
    return directory


def test_only_ids_of_topics_are_removed_and_the_checksums_of_changed_files(tmp_path: Path) -> None:
    plain = f'v1\n{BATCH}\n{{"t":{{"0":1}}}}\n-\n{{"logOffset":3}}'
    changed = f'v1\n{BATCH}\n{{"t":{{"0":2,"1":0}},{IDS}}}\n-\n{{"logOffset":3}}'
    named = f'v2\n{BATCH}\n0:{{"t":{{"0":5,"1":0}},{IDS}}}\nflights:-'
    found = convert(checkpoint(tmp_path, plain, changed, named, committed=2))
    assert (found.batches, found.last, found.is_done) == (3, 2, False)
    assert found.offsets == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 0}
    assert (tmp_path / "offsets" / "1").read_text() == changed, "nothing is written yet"
    found.write()
    texts = [(tmp_path / "offsets" / str(number)).read_text() for number in range(3)]
    assert texts == [
        plain,
        f'v1\n{BATCH}\n{{"t":{{"0":2,"1":0}}}}\n-\n{{"logOffset":3}}',
        f'v2\n{BATCH}\n0:{{"t":{{"0":5,"1":0}}}}\nflights:-',
    ]
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == [".0.crc", "0", "1", "2"]
    assert not convert(tmp_path).files


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (f'v1\n{BATCH}\n{{"t":{{"0":2}},{IDS}}}', "the first micro-batch has not ended"),
        (
            f"v1\n{BATCH}\n" + json.dumps({"t": {"0": 2}, "#topic_ids": {}, "#member": {}}),
            'is one of a query with "ottla.group.mode" = "member"',
        ),
        (f'v3\n{BATCH}\n{{"t":{{"0":2}},{IDS}}}', "it begins with b'v3'"),
        ("", "it begins with b''"),
        (f"v1\n{BATCH}\n" + '{"t":5,"#topic_ids":{}}', "these are no offsets of Kafka topics"),
    ],
)
def test_what_cannot_be_converted_is_said(tmp_path: Path, batch: str, sentence: str) -> None:
    with pytest.raises(CheckpointError, match=sentence.replace("(", r"\(")):
        convert(checkpoint(tmp_path, batch, committed=0))


def test_a_directory_that_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="it has no files in offsets/"):
        convert(tmp_path)
