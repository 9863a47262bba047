"""A standalone cluster of two workers on this machine: a job needs only the line that `ottla spark-submit-args` prints."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker import Broker
from ottla.cli.processes import QUICK_START_OPTIONS, ServerProcess, ToolMissing, find_java_home
from ottla.testing.waiting import wait_until
from tests.support.reference.class_archives import archive_options, spark_archive

SECONDS_MAX = 60
ROWS = 400
CHECKOUT = Path(__file__).parent.parent.parent

JOB = """
import json, sys
import ottla.spark

servers, rows, scratch = sys.argv[1:]
spark = ottla.spark.session("cluster")
kafka = {"kafka.bootstrap.servers": servers}
frame = spark.range(0, int(rows), 1, 2).selectExpr("cast(id as string) key", "cast(id * 2 as string) value")
frame.write.format("ottla").options(topic="source", **kafka).mode("append").save()

stream = spark.readStream.format("ottla").options(subscribe="source", startingOffsets="earliest", **kafka).load()
sink = stream.select("key", "value").writeStream.format("ottla").options(topic="target", checkpointLocation=scratch, **kafka)
assert sink.trigger(availableNow=True).start().awaitTermination(60)

def executor(_):
    # A worker's parent is Spark's Python daemon, whose parent is the executor.
    import psutil
    yield psutil.Process().parent().ppid()

found = spark.read.format("ottla").options(subscribe="target", **kafka).load()
print("RESULT", json.dumps({
    "master": spark.sparkContext.master,
    "rows": sorted((int(row.key), int(row.value)) for row in found.select("key", "value").collect()),
    "executors": sorted(set(spark.sparkContext.parallelize(range(2), 2).mapPartitions(executor).collect())),
}))
spark.stop()
"""


class Cluster:
    """Master and workers, which end with the tests."""

    def __init__(self, directory: Path, java_home: Path, java_options: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self.home = Path(spec.origin).parent
        # A folder of its own for what Spark's scripts would else look for beside themselves.
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
            "JAVA_HOME": str(java_home),
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(directory / "local"),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": java_options,
        }
        self.java_options = java_options
        self._directory = directory
        self._processes: list[ServerProcess] = []

    def start(self, workers: int) -> str:
        """The master's address, once that many workers are registered."""
        master = self._run("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        url = wait_for(master, r"Starting Spark master at (spark://\S+)")
        limits = ["--cores", "1", "--memory", "600m"]
        for number in range(workers):
            place = ["--work-dir", str(self._directory / f"work-{number}")]
            self._run(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--port", "0", *limits, *place, url)
        for process in self._processes[1:]:
            wait_for(process, "Successfully registered with (master)")
        return url

    def _run(self, name: str, *words: str) -> ServerProcess:
        command = [str(self.home / "bin" / "spark-class"), words[0], "--host", "127.0.0.1", "--webui-port", "0", *words[1:]]
        self._processes.append(ServerProcess(command, log_path=self._directory / f"{name}.log", environment=self.environment))
        return self._processes[-1]

    def stop(self) -> None:
        """Workers first: they end their executors."""
        while self._processes:
            self._processes.pop().stop(seconds_max=5)


def wait_for(process: ServerProcess, pattern: str) -> str:
    def find() -> "re.Match[str] | None":
        assert process.is_running, process.log_path.read_text()[-2000:]
        return re.search(pattern, process.log_path.read_text())

    return str(wait_until(find, lambda: f"{pattern} in {process.log_path.read_text()[-2000:]}", seconds=SECONDS_MAX)[1])


@pytest.fixture
def cluster(quick_workers: None, tmp_path: Path) -> Iterator[Cluster]:
    try:
        java_home = find_java_home()
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    made = Cluster(tmp_path, java_home, " ".join((*QUICK_START_OPTIONS, *archive_options(spark_archive(CHECKOUT / ".cache")))))
    yield made
    made.stop()


def test_a_job_reads_writes_and_streams_on_two_workers_with_the_printed_arguments(cluster: Cluster, tmp_path: Path):
    (tmp_path / "job.py").write_text(JOB)
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for made in admin.create_topics([NewTopic("source", 3, 1), NewTopic("target", 2, 1)]).values():
            made.result(60)
        small = ["--driver-memory", "512m", "--executor-memory", "512m", "--driver-java-options", cluster.java_options]
        settings = {
            "spark.executor.extraJavaOptions": cluster.java_options,
            "spark.ui.enabled": "false",
            # Nothing is run before both executors are there.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        }
        more = [*small, *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))]
        # As people write it: the shell takes the printed line apart.
        script = 'submit=$1; python=$2; shift 2; exec "$submit" $("$python" -m ottla spark-submit-args) "$@"'
        master = ["--master", cluster.start(workers=2)]
        arguments = [*master, *more, str(tmp_path / "job.py"), broker.bootstrap_servers, str(ROWS), str(tmp_path / "checkpoint")]
        submit = str(cluster.home / "bin" / "spark-submit")
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", submit, sys.executable, *arguments],
            env=cluster.environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3 * SECONDS_MAX,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0, done.stderr[-4000:]
    assert lines, done.stderr[-4000:]
    result = json.loads(lines[0].removeprefix("RESULT "))
    assert result["master"] == master[1]
    assert result["rows"] == [[number, 2 * number] for number in range(ROWS)]
    assert len(result["executors"]) == 2
    assert os.getpid() not in result["executors"]
