"""What `install_test.py` tries in a fresh environment. A check returns, or raises CheckFailed or Skipped with a sentence."""

import json
import os
import re
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ottla.cli.processes import ToolMissing, find_java_home

COMMAND_S_MAX = 300
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

PRODUCE_AND_CONSUME = """
import sys
from confluent_kafka import Consumer, Producer
servers, *codecs = sys.argv[1:]
for codec in codecs:
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec})
    for number in range(100):
        producer.produce("records", f"{codec} {number} ".encode() * 20)
    assert producer.flush(30) == 0, "records were not acknowledged"
consumer = Consumer({"bootstrap.servers": servers, "group.id": "mine", "auto.offset.reset": "earliest"})
consumer.subscribe(["records"])
found = set()
while len(found) < 100 * len(codecs):
    message = consumer.poll(30)
    assert message is not None and message.error() is None, f"no record came: {message and message.error()}"
    found.add(message.value().decode())
consumer.commit(asynchronous=False)
consumer.close()
assert found == {f"{codec} {number} " * 20 for codec in codecs for number in range(100)}
"""
TEST_FILE = """
from confluent_kafka.admin import AdminClient
def test_it(ottla_broker):
    assert AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers}).list_topics(timeout=10).brokers
"""
DECODE = """
from ottla.columnar import RecordBatchDecoder
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
for codec in Codec:
    records = [Record(number, 1_700_000_000_000, b"key", b"value", ()) for number in range(1_000)]
    buffer = encode_batch(records, base_offset=0, codec=codec)
    rows = [row for batch in RecordBatchDecoder("t", 0).decode(buffer) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(1_000)), codec
    assert {(row["key"], row["value"]) for row in rows} == {(b"key", b"value")}, codec
"""
SPARK = """
import sys
import ottla.spark
spark = ottla.spark.session("install", master="local[2]")
options = {"kafka.bootstrap.servers": sys.argv[1]}
frame = spark.range(0, 1_000, 1, 2).selectExpr("cast(id as string) key", "cast(id as string) value")
frame.write.format("ottla").options(topic="source", **options).mode("append").save()
read = spark.read.format("ottla").options(subscribe="source", **options).load()
found = sorted(int(row.value) for row in read.select("value").collect())
assert found == list(range(1_000)), f"{len(found)} rows"
spark.stop()
"""
RUN = ("run", "lag", "--bootstrap-server", "127.0.0.1:9", "--output", "out")
MIGRATE = ("migrate", "source", "target", "--bootstrap-server", "127.0.0.1:9")
CHECKPOINT = ("spark", "checkpoint", "--to", "kafka", ".")
NEEDS_SPARK = (("pipeline", "list"), ("pipeline", "show", "lag"), ("pipeline", *RUN), MIGRATE, ("spark-submit-args",), CHECKPOINT)


class CheckFailed(Exception):
    """What was expected, and what came."""


class Skipped(Exception):
    """Why a check was not done."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in `directory`/venv; `tools` has pytest, and a client library where the extra has none."""

    version: str
    extra: str
    directory: Path

    @property
    def tools(self) -> Path:
        """A folder for PYTHONPATH."""
        return self.directory / "tools"

    def variables(self, more: Mapping[str, str]) -> dict[str, str]:
        """What a process here gets: nothing of the checkout."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_", "PYSPARK_", "OTTLA_"))}
        return {**kept, **more}

    def run(
        self, *command: str, seconds_max: float = COMMAND_S_MAX, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A program of the environment, whatever its exit status."""
        path = [str(self.directory / "venv" / "bin" / command[0]), *command[1:]]
        variables = self.variables(more or {})
        return subprocess.run(path, cwd=self.directory, env=variables, capture_output=True, text=True, timeout=seconds_max, check=False)

    def python(self, *arguments: str, seconds_max: float = COMMAND_S_MAX, more: Mapping[str, str] | None = None) -> str:
        """The output of Python. Raises CheckFailed when it fails."""
        return expect(self.run("python", *arguments, seconds_max=seconds_max, more=more))

    def ottla(self, *arguments: str, more: Mapping[str, str] | None = None) -> str:
        """The output of a command. Raises CheckFailed when it fails, or prints a traceback."""
        done = self.run("ottla", *arguments, more=more)
        if has_traceback(done.stderr):
            raise CheckFailed(f"ottla {arguments[0]} printed {done.stderr.strip()[-1_500:]}")
        return expect(done)

    @contextmanager
    def broker(self) -> Iterator[str]:
        """`ottla broker` on a data directory; gives bootstrap.servers, and sees to it that the broker stops with status 0."""
        command = [str(self.directory / "venv" / "bin" / "ottla"), "broker", "--listen", "127.0.0.1:0", "--data", "data"]
        with subprocess.Popen(command, cwd=self.directory, env=self.variables({}), stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline().strip()
                if not line.startswith("bootstrap.servers="):
                    raise CheckFailed(f"the broker did not start: it said {line!r}")
                yield line.partition("=")[2]
                process.send_signal(signal.SIGTERM)
                if process.wait(60) != 0:
                    raise CheckFailed(f"the broker stopped with status {process.returncode}")
            finally:
                process.kill()


def expect(done: "subprocess.CompletedProcess[str]") -> str:
    """The output of what ended with 0; else CheckFailed with its last words."""
    if done.returncode != 0:
        words = " ".join(str(word).strip()[:40] for word in done.args[:5])
        raise CheckFailed(f"{words} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-1_500:]}")
    return done.stdout


def check_help(environment: Environment) -> None:
    """`--help` of every command and of those below it, the version, a page of the documentation."""
    listed = environment.ottla("--help").partition("Commands:\n")[2]
    commands = [(name,) for name in re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE)]
    if len(commands) < 10:
        raise CheckFailed(f"ottla --help lists only {commands}")
    for command in [*commands, *(("pipeline", name) for name in ("list", "show", "run"))]:
        if not environment.ottla(*command, "--help").startswith("Usage: ottla"):
            raise CheckFailed(f"ottla {' '.join(command)} --help prints no usage")
    environment.ottla("--version")
    if "# Settings" not in environment.ottla("docs", "settings"):
        raise CheckFailed("ottla docs settings does not print the settings")


def check_records(environment: Environment) -> None:
    """Records there and back through a broker of the wheel in each compression; then what its other commands say of them."""
    with environment.broker() as servers:
        environment.python("-c", PRODUCE_AND_CONSUME, servers, *CODECS, more={"PYTHONPATH": str(environment.tools)})
        if "mine" not in environment.ottla("groups", "--bootstrap-server", servers, "--list"):
            raise CheckFailed("ottla groups --list does not list the group")
        environment.ottla("coordinator", "mine", "--bootstrap-server", servers)
    dumped = environment.ottla("dump-log", "data/records-0", "--print-data-log")
    for codec in CODECS:
        if f"payload: {codec} 99 " not in dumped:
            raise CheckFailed(f"ottla dump-log does not show the records in {codec}")
    environment.ottla("doctor", "--data", "data")
    environment.ottla("advise")


def check_plugin(environment: Environment) -> None:
    """The pytest fixture."""
    (environment.directory / "test_it.py").write_text(textwrap.dedent(TEST_FILE))
    environment.python("-m", "pytest", "-q", "test_it.py", more={"PYTHONPATH": str(environment.tools)})


def check_extras(environment: Environment) -> None:
    """What needs an extra that is not here says which one, in one line and with status 1."""
    without = {"bare": ("arrow", "spark", "demo"), "arrow": ("spark", "demo"), "spark": ("demo",)}[environment.extra]
    commands = [(("demo",), "demo"), *((command, "spark") for command in NEEDS_SPARK)]
    for command, extra in commands:
        if extra in without:
            done = environment.run("ottla", *command)
            expect_sentence(done, rf'Error: .+ not installed: pip install "ottla\[{extra}\]"')
    for package, extra in (("ottla.spark", "spark"), ("ottla.columnar", "arrow")):
        if extra in without:
            done = environment.run("python", "-c", f"import {package}")
            expect_sentence(done, rf'(?s).*MissingExtraError: .+ not installed: pip install "ottla\[{extra}\]"')


def has_traceback(text: str) -> bool:
    """Whether a traceback was printed, other than by PySpark's own daemon: that is stopped while it prints one, or its first line."""
    return re.search(r"Traceback.*\n(?!.*pyspark/daemon\.py).", text) is not None


def expect_sentence(done: "subprocess.CompletedProcess[str]", pattern: str) -> None:
    """CheckFailed unless it ended with 1 and this on stderr."""
    if done.returncode != 1 or done.stdout or not re.fullmatch(pattern, done.stderr.rstrip("\n")):
        words = " ".join(map(str, done.args[:4]))
        raise CheckFailed(f"{words} ended with {done.returncode} and said {done.stderr.strip()[-600:]!r}")


def check_columnar(environment: Environment) -> None:
    """Record batches of each codec to Arrow."""
    environment.python("-c", DECODE)


def check_spark(environment: Environment) -> None:
    """Rows written to and read from a topic, a topic migrated, a pipeline run."""
    try:
        more = {"JAVA_HOME": str(find_java_home())}
    except ToolMissing as missing:
        raise Skipped(str(missing)) from missing
    expect(environment.run("ottla", "spark-submit-args"))
    with environment.broker() as servers:
        environment.python("-c", SPARK, servers, more=more)
        options = ("--partitions", "2", "--bootstrap-server", servers, "--cores", "2")
        migrated = environment.ottla("migrate", "source", "target", *options, more=more)
        if not migrated.startswith("1000 records copied"):
            raise CheckFailed(f"ottla migrate said {migrated!r}")
        tables = ("--bootstrap-server", servers, "--output", "tables", "--json", "--cores", "2")
        report = json.loads(environment.ottla("pipeline", "run", "offset_commits", *tables, more=more))
        if not report["tables"]:
            raise CheckFailed(f"ottla pipeline run wrote no table: {report}")


def checks(extra: str) -> Iterator[tuple[str, Callable[[Environment], None]]]:
    """The checks of a row by their names."""
    yield from (("help", check_help), ("records", check_records), ("plugin", check_plugin), ("extras", check_extras))
    if extra in ("arrow", "spark"):
        yield "arrow", check_columnar
    if extra == "spark":
        yield "spark", check_spark
