"""The pipeline's inputs and settings; its rows are compared with Burrow's way to them in tests/spark."""

import pyarrow as pa
import pytest

from ottla.history.burrow import BurrowSettings
from ottla.spark.pipelines.group_status import PIPELINE, configure, evaluate
from ottla.spark.schemas import GROUP_STATUS

ROW = {
    "group": "g",
    "partitions": [{"topic": "t", "partition": 0, "log_end": 9, "log_ends": [5, 9], "commits": None}],
    "now_ms": 60_000,
}


def test_the_rows_of_a_worker_have_the_tables_columns():
    [batch] = evaluate([pa.RecordBatch.from_pylist([ROW])], BurrowSettings())
    assert batch.schema.names == GROUP_STATUS.fieldNames()
    assert batch.to_pylist()[0]["status"] == "NOTFOUND"
    commit = {"offset": 0, "committed_offset": 3, "at_ms": 50_000, "lag": 2}
    known = {**ROW, "partitions": [{**ROW["partitions"][0], "commits": [commit]}]}
    [batch] = evaluate([pa.RecordBatch.from_pylist([known])], BurrowSettings())
    [row] = batch.to_pylist()
    assert (row["status"], row["maxlag"]["status"], row["total_lag"]) == ("ERR", "STOP", 6)


def test_settings_are_burrows():
    assert configure({"intervals": "3"}).outputs == PIPELINE.outputs
    with pytest.raises(ValueError, match="there is no setting moon"):
        configure({"moon": "1"})
