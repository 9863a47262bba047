"""DescribeLogDirs: where partitions lie and how large they are, opened or not; and how full the disk is."""

from typing import Any

import pytest

from ottla.log.files import OsFiles
from ottla.protocol.wire.api_keys import ApiKey


@pytest.fixture
def on_disk(make_api, tmp_path):
    return make_api(None, OsFiles(tmp_path / "data"))


def ask(api, topics: Any = None, version: int = 5):
    (result,) = api.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics).results
    return result


def sizes(result) -> dict[tuple[str, int], int]:
    return {(topic.name, part.partition_index): part.partition_size for topic in result.topics for part in topic.partitions}


def fill(api, batch, partition: int = 0) -> None:
    data = [{"name": "t", "partition_data": [{"index": partition, "records": batch(b"x" * 1000)}]}]
    api.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)


@pytest.mark.parametrize("version", range(1, 6))
def test_every_version_names_the_directory_and_its_partitions(on_disk, make_topic, batch, tmp_path, version: int) -> None:
    make_topic("t", 2, of=on_disk)
    fill(on_disk, batch)
    result = ask(on_disk, None, version)
    assert (int(result.error_code), result.log_dir) == (0, str(tmp_path / "data"))
    assert sizes(result) == {("t", 0): 1000 + 61 + 9, ("t", 1): 0}
    (topic,) = result.topics
    assert all((part.offset_lag, part.is_future_key) == (0, False) for part in topic.partitions)
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
    if version >= 5:
        assert result.is_cordoned is False


def test_only_what_is_asked_for_and_is_there(on_disk, make_topic, batch) -> None:
    make_topic("t", 3, of=on_disk)
    make_topic("u", 1, of=on_disk)
    topics = [{"topic": "t", "partitions": (2, 0, 0, 9, -1)}, {"topic": "gone", "partitions": (0,)}]
    assert sizes(ask(on_disk, topics)) == {("t", 2): 0, ("t", 0): 0}
    assert sizes(ask(on_disk, [])) == {}


def test_an_unused_partition_is_measured_and_not_opened(api, make_api, make_topic, batch, tmp_path) -> None:
    before = type(api)(None, OsFiles(tmp_path / "data"))
    make_topic("t", 2, of=before)
    for partition in range(2):
        fill(before, batch, partition)
    before.close()
    again = make_api(None, OsFiles(tmp_path / "data"))
    opened = {partition.name for partition in again.cluster.partitions.opened()}
    assert sizes(ask(again, [{"topic": "t", "partitions": (0, 1)}])) == {("t", 0): 1070, ("t", 1): 1070}
    assert {partition.name for partition in again.cluster.partitions.opened()} == opened


def test_a_broker_in_memory(api, make_topic, batch) -> None:
    make_topic("t")
    fill(api, batch)
    result = ask(api)
    assert (result.log_dir, result.total_bytes, result.usable_bytes) == ("memory", -1, -1)
    assert sizes(result) == {("t", 0): 1070}


def test_a_directory_that_is_gone_is_an_error_of_its_own(on_disk, make_topic, tmp_path) -> None:
    make_topic("t", of=on_disk)
    (tmp_path / "data").rename(tmp_path / "moved")
    result = ask(on_disk)
    assert (int(result.error_code), result.log_dir, result.topics) == (56, str(tmp_path / "data"), ())
    (tmp_path / "moved").rename(tmp_path / "data")
