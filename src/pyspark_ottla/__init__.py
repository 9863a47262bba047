"""Where Spark finds the format "ottla" by itself: it imports every package named pyspark_* and registers its `DefaultSource`.

That happens in each session of a Python that has ottla installed, whatever the session is for; so nothing is loaded here but the source's
name, and NumPy, Numba, Arrow and the wire protocol come when a query uses it.
"""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
