"""AlterReplicaLogDirs: one directory, which every replica is in."""

from typing import Any

import pytest

from ottla.broker.apis.alter_replica_log_dirs import API
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey

HERE = "/data"


@pytest.fixture
def alter(one_api, metadata, brokers):
    """Asks broker 1, which has the first partition of `t`; gives the errors by topic and partition."""
    api = one_api(API, cluster_metadata=metadata, log_directory=HERE, node=brokers.nodes[1])

    def ask(*directories: tuple[str, dict[str, list[int]]], version: int = 2) -> dict[tuple[str, int], int]:
        dirs: list[Any] = [
            {"path": path, "topics": [{"name": name, "partitions": numbers} for name, numbers in topics.items()]}
            for path, topics in directories
        ]
        results = api.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs).results
        return {(topic.topic_name, each.partition_index): int(each.error_code) for topic in results for each in topic.partitions}

    return ask


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_stays_where_it_is(alter, version: int) -> None:
    assert alter((HERE, {"t": [0]}), version=version) == {("t", 0): ErrorCode.NONE}


@pytest.mark.parametrize("path", ["/elsewhere", "data", "", "/data/"])
def test_there_is_no_other_directory(alter, path: str) -> None:
    assert alter((path, {"t": [0], "gone": [0]})) == {
        ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        ("gone", 0): ErrorCode.LOG_DIR_NOT_FOUND,
    }


def test_partitions_that_this_broker_does_not_have(alter) -> None:
    assert alter((HERE, {"t": [1, 9, -1], "gone": [0]})) == {
        ("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_the_last_directory_counts(alter) -> None:
    assert alter((HERE, {"t": [0, 0]}), ("/elsewhere", {"t": [0]})) == {("t", 0): ErrorCode.LOG_DIR_NOT_FOUND}
    assert alter((HERE, {"t": []}), (HERE, {})) == {}


def test_the_directory_is_the_one_that_describe_log_dirs_shows(api, make_topic) -> None:
    make_topic("t")
    (shown,) = api.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    dirs = [{"path": shown.log_dir, "topics": [{"name": "t", "partitions": [0]}]}]
    assert api.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs).results[0].partitions[0].error_code == ErrorCode.NONE
