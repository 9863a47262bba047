"""`offset_commits` written by the workers themselves: the same rows as Spark's steps make of the same topic."""

from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.protocol.model import TopicPartition
from ottla.spark.pipelines import offset_commits
from ottla.spark.runner.inputs import ClusterInputs
from ottla.spark.runner.pipeline_run import PipelineRun, run, run_on_cluster
from ottla.spark.runner.tables import Tables

GROUPS = 20


@pytest.fixture
def inputs(spark: Any) -> Any:
    with Broker() as broker, AdminClient(broker.bootstrap_servers) as admin:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"1", partition=0)
        assert producer.flush(60) == 0
        for number in range(GROUPS):
            admin.commit(f"g{number}", {TopicPartition("t", 0): number % 2})
        admin.delete_groups(["g3"])
        yield ClusterInputs(spark=spark, bootstrap_servers=broker.bootstrap_servers)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_the_rows_are_those_of_the_steps(spark: Any, inputs: ClusterInputs, tmp_path: Path) -> None:
    pipeline = offset_commits.PIPELINE
    expected = run(pipeline, inputs.read(pipeline, inputs.offsets(pipeline)))
    for _ in range(2):  # a second run replaces the tables
        stored = run_on_cluster(spark, pipeline, bootstrap_servers=inputs.bootstrap_servers, directory=str(tmp_path))
        assert {name: rows(frame) for name, frame in stored.items()} == {name: rows(frame) for name, frame in expected.items()}
    assert len(rows(stored["offset_commits"])) > GROUPS
    assert {path.suffix for path in (tmp_path / "offset_commits").iterdir()} == {".parquet"}


def test_with_a_filter_spark_writes_them(spark: Any, inputs: ClusterInputs, tmp_path: Path) -> None:
    one = PipelineRun(pipeline=offset_commits.PIPELINE, inputs=inputs, tables=Tables(spark, str(tmp_path)), groups=("g3",)).batch()
    assert {row["group"] for row in one["offset_commits"].collect()} == {"g3"}
    assert sum(row["records"] for row in one["group_record_counts"].collect()) > GROUPS
