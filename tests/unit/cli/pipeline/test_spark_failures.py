"""Texts as Spark makes them of exceptions in workers."""

from ottla.cli.pipeline.spark_failures import own_sentence

WRAPPED = """[STREAM_FAILED] Query terminated: Traceback (most recent call last):
ottla.spark.sink.senders.DeliveryError: no broker answers

The above exception was the direct cause of the following exception:

ottla.spark.migration.values.MigrationError: cannot write to narrow: no broker answers
\tat org.apache.spark.api.python.BasePythonRunner
"""


def test_the_last_exception_of_ours_is_the_sentence():
    assert own_sentence(RuntimeError(WRAPPED)) == "cannot write to narrow: no broker answers"


def test_what_is_not_ours_has_no_sentence():
    assert own_sentence(RuntimeError("java.lang.OutOfMemoryError: heap\nValueError: x")) is None


def test_a_format_that_spark_does_not_have():
    error = RuntimeError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta. Make sure the provider name is correct")
    assert own_sentence(error) == "Spark has no format delta here: add its jars, with spark.jars.packages in spark-defaults.conf"
