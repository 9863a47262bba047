"""A Spark session on this machine with the settings that suit our source and pipelines; a reason beside each.

It starts Spark and registers the source, and decides nothing about queries. Whoever has a session of their own calls `register`.
"""

import sys
from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ottla.spark.source import OttlaDataSource

SETTINGS: Final[Mapping[str, str]] = {
    # One machine: other machines have no business with the driver, and a host name that resolves oddly must not stop it.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # No web server, no port, for a job that ends by itself.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Kafka's times are UTC; with the machine's zone the same query would print different hours elsewhere.
    "spark.sql.session.timeZone": "UTC",
    # Workers are forked with the decoder's kernels loaded: saves a second or two at the first read, and again after an idle minute, when
    # Spark ends its workers.
    "spark.python.daemon.module": "ottla.spark.daemon",
}

SMALL: Final[Mapping[str, str]] = {
    # Two hundred shuffle partitions (Spark's default) of a table that fits one cost more than the query.
    "spark.sql.shuffle.partitions": "2",
    # Replanning between stages is pure cost on tables this small.
    "spark.sql.adaptive.enabled": "false",
}
"""For tables of up to some hundred thousand rows, such as group events."""


class JavaMissingError(Exception):
    """Spark could not start its Java process."""


def local_session(app_name: str = "ottla", *, cores: str = "*", settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session on this machine, `cores` of it ("*": all), that knows the format "ottla"; `settings` come on top of SETTINGS.

    Raises JavaMissingError where there is no Java 17 or later.
    """
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app_name)
    for name, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise JavaMissingError("Spark needs Java 17 or later: install it, or let JAVA_HOME point to it") from error
    spark.sparkContext.setLogLevel("ERROR")
    # The workers must be the interpreter that has our packages; Spark itself asks only the environment, which is not ours to change.
    spark.sparkContext.pythonExec = sys.executable
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Make the format "ottla" known to a session. Its workers must be Python interpreters that have ottla installed."""
    spark.dataSource.register(OttlaDataSource)
