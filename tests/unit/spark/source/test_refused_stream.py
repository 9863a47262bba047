"""A stream with invalid options: tests/spark/test_option_mistakes.py asks it as Spark does."""

import pytest
from pyspark.sql.datasource import InputPartition

from ottla.spark.options.values import OptionError
from ottla.spark.source.refused_stream import RefusedStreamReader


def test_it_raises_its_error_and_stops():
    reader = RefusedStreamReader(OptionError("wrong"))
    with pytest.raises(OptionError, match="wrong"):
        reader.read(InputPartition(0))
    reader.stop()
