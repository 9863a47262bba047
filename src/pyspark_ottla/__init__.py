"""Registers the format "ottla" in Spark, which imports every package named pyspark_* and takes its `DefaultSource`.

Spark does that in every session of a Python that has ottla installed. So this module loads the data source alone; NumPy, Numba, Arrow and
the wire protocol are loaded when a query uses it.
"""

from ottla.spark.data_source import OttlaDataSource as DefaultSource  # noqa: F401
