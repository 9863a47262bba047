"""Names of tables in a catalog; what Spark does with them: tests/spark/test_catalog_tables.py."""

import pytest

from ottla.spark.pipelines import pipelines
from ottla.spark.runner.catalog_tables import table_names
from ottla.spark.runner.tables import TableError


def test_the_first_output_has_the_name_and_the_others_begin_with_it():
    assert table_names("lake.kafka.prod_lag", pipelines()["lag"]) == {
        "lag": "lake.kafka.prod_lag",
        "lag_history": "lake.kafka.prod_lag_history",
        "lag_commits": "lake.kafka.prod_lag_commits",
        "end_offset_history": "lake.kafka.prod_lag_end_offset_history",
    }
    assert table_names("commits", pipelines()["offset_commits"]) == {
        "offset_commits": "commits",
        "group_record_counts": "commits_group_record_counts",
    }


@pytest.mark.parametrize("name", pipelines())
def test_no_two_tables_of_a_pipeline_have_one_name(name: str):
    pipeline = pipelines()[name]
    names = table_names("t", pipeline)
    assert set(names) == {*pipeline.outputs, *pipeline.appended}
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a.`b`", "a.{b}"])
def test_what_is_no_name_is_refused(name: str):
    with pytest.raises(TableError, match=r"is no name of a table: write CATALOG\.SCHEMA\.TABLE"):
        table_names(name, pipelines()["lag"])
