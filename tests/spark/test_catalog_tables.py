"""Tables of Spark's own catalog, as Parquet: replaced, written in parts, continued; and what is said where they cannot be written."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.cli.pipeline import own_sentence
from ottla.client.admin.client import AdminClient
from ottla.protocol.model import TopicPartition
from ottla.spark.pipelines import Pipeline, PipelineStep, pipelines
from ottla.spark.runner.pipeline_run import run_on_cluster, store
from ottla.spark.runner.tables import PART, CatalogTables, TableError
from ottla.spark.schemas import OFFSET_COMMITS
from ottla.testing.raw_client import create_topic

LAG = StructType([StructField("group", StringType()), StructField("lag", LongType())])
PIPELINE = Pipeline(
    inputs={}, outputs={"lag": LAG}, appended={"lag_parts": LAG}, steps=(PipelineStep(lambda parts: parts, ("lag_parts",), "lag"),),
    overview=lambda frame: frame,
)  # fmt: skip


@pytest.fixture
def schema(spark: Any, unique_name: Callable[[str], str]) -> Iterator[str]:
    name = unique_name("pipelines").replace("-", "_")
    spark.sql(f"CREATE SCHEMA {name}")
    yield name
    spark.sql(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def tables(spark: Any, schema: str, tmp_path: Path) -> CatalogTables:
    return CatalogTables(spark=spark, pipeline=PIPELINE, table=f"spark_catalog.{schema}.lag", checkpoints=f"{tmp_path}/it's")


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def frame_of(tables: CatalogTables, *rows: tuple[str, int]) -> Any:
    return tables.spark.createDataFrame(rows, LAG)


def test_a_table_is_replaced_where_it_is(tables: CatalogTables, schema: str, tmp_path: Path):
    assert tables.read("lag", LAG).collect() == []
    tables.spark.sql(f"CREATE TABLE {schema}.lag (group STRING, lag BIGINT) USING orc LOCATION '{tmp_path}/elsewhere'")
    for number in (1, 2):
        assert rows(tables.write("lag", frame_of(tables, ("a", number)), LAG)) == [("a", number)]
    assert list((tmp_path / "elsewhere").glob("*.orc"))
    assert rows(tables.spark.table(f"{schema}.lag")) == [("a", 2)]


def test_a_repeated_part_replaces_itself_alone_and_a_batch_replaces_all(tables: CatalogTables, schema: str):
    mode = "dynamic"  # in which Spark itself leaves what there are no rows for
    tables.spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        tables.append("lag_parts", frame_of(tables, ("old", 1)), LAG, 8)
        tables.clear("lag_parts", LAG)
        tables.append("lag_parts", frame_of(tables, ("a", 1)), LAG, 0)
        tables.append("lag_parts", frame_of(tables, ("b", 2)), LAG, 7)
        tables.append("lag_parts", frame_of(tables, ("b", 3), ("c", 4)), LAG, 7)
        assert rows(tables.read("lag_parts", LAG)) == [("a", 1), ("b", 3), ("c", 4)]
        tables.check_continued("lag_parts")
        tables.append("lag_parts", frame_of(tables), LAG, 7)
        assert rows(tables.spark.table(f"{schema}.lag_parts").select("group", PART)) == [("a", 0)]
        assert rows(tables.write("lag_parts", frame_of(tables, ("e", 9)), LAG)) == [("e", 9)]
        assert tables.spark.conf.get("spark.sql.sources.partitionOverwriteMode") == mode
    finally:
        tables.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_a_stream_continues_behind_its_own_rows_only(tables: CatalogTables, schema: str):
    said = rf"the table spark_catalog\.{schema}\.lag_parts was dropped, or written by another run, since the stream of .*it's/_checkpoint_"
    with pytest.raises(TableError, match=said):
        tables.check_continued("lag_parts")
    tables.clear("lag_parts", LAG)
    tables.check_continued("lag_parts")
    with pytest.raises(TableError, match=said.replace("it's", "other")):
        replace(tables, checkpoints="/other").check_continued("lag_parts")
    tables.write("lag_parts", frame_of(tables, ("a", 1)), LAG)
    with pytest.raises(TableError, match=said):
        tables.check_continued("lag_parts")


def test_what_cannot_be_written_is_said_with_what_to_do(spark: Any, tables: CatalogTables, schema: str):
    with pytest.raises(Exception, match=r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: `?moon") as unknown:
        replace(tables, format="moon").write("lag", frame_of(tables), LAG)
    assert own_sentence(unknown.value) == "Spark has no format moon here: add its jars, with spark.jars.packages in spark-defaults.conf"
    spark.sql(f"CREATE TABLE {schema}.lag (group STRING) USING parquet")
    with pytest.raises(TableError, match=rf"the table spark_catalog\.{schema}\.lag has the columns .* drop it, or choose another name"):
        tables.write("lag", frame_of(tables), LAG)
    spark.conf.set("spark.sql.catalog.broken", "no.such.Class")
    for table, said in (
        ("lake.kafka.lag", r"there is no catalog lake: configure it in spark-defaults\.conf, with spark\.sql\.catalog\.lake"),
        ("spark_catalog.nowhere.lag", "there is no schema spark_catalog.nowhere: create it first, CREATE SCHEMA spark_catalog.nowhere"),
        ("nowhere.lag", "there is no schema nowhere: create it first"),
        ("spark_catalog.a.b.lag", "there is no schema spark_catalog.a.b: create it first"),
        ("broken.a.lag", "the catalog broken cannot be used: .*no.such.Class"),
    ):
        with pytest.raises(TableError, match=said):
            store(spark, PIPELINE, table=table)
    spark.conf.unset("spark.sql.catalog.broken")
    for wrong in ({}, {"directory": "/d", "table": "t"}):
        with pytest.raises(ValueError, match="give either a directory or a table"):
            store(spark, PIPELINE, **wrong)


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t")
        yield broker.bootstrap_servers


def commit(servers: str, **offsets: int) -> None:
    with AdminClient(servers) as admin:
        for group, offset in offsets.items():
            admin.commit(group, {TopicPartition("t", 0): offset})


def test_a_stream_continues_in_a_catalog_and_a_batch_replaces_it(
    spark: Any, session_of_commands: None, servers: str, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = f"{schema}.commits"
    command = ["pipeline", "run", "offset_commits", "--bootstrap-server", servers, "--table", table, "--json"]
    commit(servers, a=1, b=2)

    def run(*more: str) -> Any:
        return CliRunner().invoke(main, [*command, *more])

    said = run().output
    assert f"the catalog of {table} is in memory, and would end with this command: set spark.sql.catalogImplementation=hive" in said
    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    monkeypatch.setattr(CatalogTables, "outlives_session", True)
    following = ["--available-now", "--checkpoint", str(tmp_path)]
    for offsets in ({"a": 3}, {"b": 5}):
        first = run(*following)
        assert first.exit_code == 0, first.output
        assert json.loads(first.stdout)["tables"]["offset_commits"]["table"] == table
        commit(servers, **offsets)
    wanted = [("a", 1), ("a", 3), ("b", 2)]
    assert rows(spark.table(table).select("group", "committed_offset")) == wanted
    stored = run_on_cluster(spark, pipelines()["offset_commits"], bootstrap_servers=servers, table=table)
    assert stored["offset_commits"].schema == OFFSET_COMMITS
    assert rows(stored["offset_commits"].select("group", "committed_offset")) == [*wanted, ("b", 5)]
    assert rows(spark.table(f"{table}_group_record_counts").selectExpr("sum(records) >= 4")) == [(True,)]
