"""Archives of parsed classes (Java's class data sharing) for the JVMs of tests: one that starts from an archive does half the work.

An archive belongs to one Java and one list of jars, and its name says which: after an update it is made again. What is missing in
`.cache` is made by `python -m tests.support.reference.class_archives`; tests use what is there, and start without an archive otherwise.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ottla.cli.processes import QUICK_START_OPTIONS, ToolMissing, find_java, find_java_home
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from tests.support.reference.apache_kafka import ARTIFACTS, QUICK_JVM_OPTIONS, VERSION, ApacheKafka
from tests.support.reference.maven import fetch_jars, report_progress

CACHE = Path(".cache")
# Without it, a JVM that cannot use its archive says so on stdout, among the lines of the tool that it runs.
SILENT = "-Xlog:cds*=off"


def kafka_archive(cache: Path) -> Path:
    """Where Apache Kafka's archive is, or would be. Raises ToolMissing where there is no Java."""
    return _archive(cache, "apache-kafka", cache / f"apache-kafka-{VERSION}")


def spark_archive(cache: Path) -> Path:
    """Where Spark's archive is, or would be; PySpark must be installed. Raises ToolMissing where there is no Java."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return _archive(cache, "spark", Path(spec.origin).parent / "jars")


def archive_options(archive: Path) -> tuple[str, ...]:
    """The options of a JVM that starts from an archive; none where it was never made."""
    return (f"-XX:SharedArchiveFile={archive}", SILENT) if archive.exists() else ()


def make_archive(archive: Path, run: Callable[[Sequence[str]], None], *, report: Callable[[str], None] = report_progress) -> None:
    """Make an archive unless it is there: `run` starts a JVM with the options it is given, uses it and ends it in order."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.parent / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        report(f"Making {archive} (once) ...")
        for outdated in archive.parent.glob(f"{archive.name.rpartition('-')[0]}-*.jsa"):
            outdated.unlink()
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            drafted = Path(scratch) / archive.name
            run([f"-XX:ArchiveClassesAtExit={drafted}", SILENT])
            if drafted.exists():
                drafted.rename(archive)
            else:
                report(f"{archive} was not made: JVMs start without it.")


def run_kafka(options: Sequence[str], *, cache: Path) -> None:
    """A broker that makes a topic and a group, and ends in order."""
    with tempfile.TemporaryDirectory() as directory:
        jvm_options = (*QUICK_JVM_OPTIONS, *options)
        broker = ApacheKafka(directory, cache_dir=cache / f"apache-kafka-{VERSION}", jvm_options=jvm_options)
        broker.start()
        with RawClient(broker.bootstrap_servers) as client:
            create_topic(client, "topic")
            client.call(ApiKey.FIND_COORDINATOR, 0, key="group")
        broker.stop()


def run_spark(options: Sequence[str]) -> None:
    """A session that reads a table in a batch and in a stream, and ends in order."""
    import ottla.spark
    from ottla.spark.sessions import SMALL

    java_options = " ".join((*QUICK_START_OPTIONS, *options))
    settings = {**SMALL, "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java_options}
    spark = ottla.spark.session("class-archive", master="local[2,1]", settings=settings)
    gateway: Any = spark.sparkContext._gateway
    with tempfile.TemporaryDirectory() as directory:
        numbers = spark.range(100).selectExpr("id", "id % 7 as rest")
        numbers.groupBy("rest").count().orderBy("rest").write.parquet(f"{directory}/table")
        table = spark.read.schema("rest bigint, count bigint").parquet(f"{directory}/table")
        table.collect()
        stream = spark.readStream.schema(table.schema).parquet(f"{directory}/table")
        writer = stream.writeStream.format("noop").option("checkpointLocation", f"{directory}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # Spark's JVM ends with its input
    gateway.proc.wait()


def main() -> None:
    """Make what is missing."""
    try:
        os.environ.setdefault("JAVA_HOME", str(find_java_home()))
        make_archive(spark_archive(CACHE), run_spark)
        # The archive is named after the jars, so they are fetched first: a name without them is one that no test looks for.
        fetch_jars(ARTIFACTS, CACHE / f"apache-kafka-{VERSION}", what=f"Apache Kafka {VERSION}")
        make_archive(kafka_archive(CACHE), lambda options: run_kafka(options, cache=CACHE))
    except ToolMissing as missing:
        report_progress(f"Without class archives: {missing}")


def _archive(cache: Path, name: str, jars: Path) -> Path:
    """An archive's path, which changes with the Java and the jars that it is made of."""
    java = find_java().resolve()
    seen = hashlib.sha256()
    for path in (java, *sorted(jars.glob("*.jar"))):
        status = path.stat()
        seen.update(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}\n".encode())
    return cache.resolve() / "class-archives" / f"{name}-{seen.hexdigest()[:16]}.jsa"


if __name__ == "__main__":
    main()
