"""Spark's own Kafka connector (JVM), with which tests and benchmarks compare our format: its jars and where they come from.

A session that uses it has `jars` in `spark.jars`. The versions belong to the PySpark that is installed.
"""

from collections.abc import Callable
from pathlib import Path

from ottla.testing.reference.maven import fetch_jars, report_progress

VERSION = "4.2.0"
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # fits 4.2.0 as it is
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
"""What Spark does not bring itself; everything else that these depend on is in PySpark already, in versions of its own."""


def fetch_connector(cache_dir: Path, *, report: Callable[[str], None] = report_progress) -> list[Path]:
    """The connector's jars in a folder of `cache_dir`, fetched once. Raises ToolMissing, whose text is a reason to skip."""
    directory = cache_dir / f"spark-kafka-connector-{VERSION}"
    return fetch_jars(ARTIFACTS, directory, what=f"Spark's Kafka connector {VERSION}", are_alone=True, report=report)
