"""Spark sessions with settings for the source and the pipelines, a reason beside each; and the same as arguments of `spark-submit`.

It starts Spark (or uses what `spark-submit` started) and registers the format "ottla". Settings that the user has made are kept. Any other
session can use the format as well: Spark finds it by itself (`pyspark_ottla`).

Arguments are for a job with the format "ottla" on a cluster: settings, the interpreter, a shipped environment. To make them starts nothing
and connects to no machine.
"""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from ottla.spark.data_source import OttlaDataSource
from ottla.spark.python_path.sitecustomize import FOLDER

SETTINGS: Final[Mapping[str, str]] = {
    # Kafka's times are UTC; with the machine's zone the same query would print different hours elsewhere.
    "spark.sql.session.timeZone": "UTC",
    # Workers are forked with the decoder's kernels loaded: saves a second or two at the first read, and again after an idle minute, when
    # Spark ends its workers.
    "spark.python.daemon.module": "ottla.spark.daemon",
    # Filters on partition, offset and timestamp decide what is fetched; Spark's default is to fetch everything and filter afterwards.
    "spark.sql.python.filterPushdown.enabled": "true",
}

UNIX_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"

LOCAL: Final[Mapping[str, str]] = {
    # One machine: no other machine needs to reach the driver, and a host name that does not resolve must not stop it.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Through TCP, messages between JVM and Python worker wait for the kernel's delayed acknowledgements: 40 ms in every micro-batch.
    # Not on clusters: the path must be short, and YARN's temporary folders are not.
    UNIX_SOCKETS: "true",
    # No web server, no port, for a job that ends by itself.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark's first choice for checkpoints (Hadoop's FileContext) runs other programs to write a file on a local disk: 58 ms of CPU a
    # micro-batch, and each of its two commits took two to three times as long. This one does not; it renames files into place as well.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""On top of SETTINGS where Spark runs on this machine alone."""

SMALL: Final[Mapping[str, str]] = {
    # Two hundred shuffle partitions (Spark's default) of a table that fits one cost more than the query.
    "spark.sql.shuffle.partitions": "2",
    # Replanning between stages is pure cost on tables this small.
    "spark.sql.adaptive.enabled": "false",
}
"""For tables of up to some hundred thousand rows, such as group events."""

OWN_QUERIES: Final[Mapping[str, str]] = {
    # For each function of a column PySpark asks its JVM some ten times, so that an error can name the line that called it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""For commands, whose user has not written the queries."""

SOCKET_FOLDER_BYTES_MAX: Final = 60
"""Longest path of a folder for Unix sockets: with Spark's name for a socket, 43 bytes, as much as every system takes (103)."""

PRINTED_CHARACTERS_MAX: Final = 4000
_DRIVER_PYTHON, _PATH = "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"

_LAUNCHERS: Final = ("spark.ui.showConsoleProgress",)
"""Settings that PySpark's launcher makes by itself: the user has not chosen them."""

LOCAL_ATTEMPTS_MAX: Final = 4
"""Attempts per task on this machine, as on a cluster; Spark's own number for local masters is 1, where a lost worker ends the query."""

CLIENT, CLUSTER = "client", "cluster"
UNPACKED: Final = "ottla_env"
"""The folder in which every executor finds the archive's files."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=#~-]+")


class SessionError(Exception):
    """No session can be started: the message says why, and what to do."""


class JavaMissingError(SessionError):
    """Spark could not start its Java process."""


class SparkConnectError(SessionError):
    """The session would be one of Spark Connect, whose server has the settings."""


def session(
    app_name: str = "ottla",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    stderr: IO[bytes] | None = None,
) -> SparkSession:
    """A session with the format "ottla". `master` None: that of spark-submit, else all cores of this machine.

    `settings` override the defaults of this module; those defaults do not override spark-submit or spark-defaults.conf. `stderr`: a file
    for what Java and its workers print, which is several lines at every start; None: the standard error. Raises
    JavaMissingError without Java 17 or later, and SparkConnectError where the environment or `settings` name a Spark Connect server.
    """
    _refuse_connect(master, settings or {})
    wanted = {**({"spark.master": master} if master else {}), **(settings or {}), "spark.app.name": app_name}
    given = _start_java(wanted, stderr)
    where = _with_attempts(wanted.get("spark.master") or given.get("spark.master", "local[*]"))
    ours = {**SETTINGS, **(LOCAL if where.startswith("local") else {})}
    if len(_temporary_folder().encode()) > SOCKET_FOLDER_BYTES_MAX:
        ours.pop(UNIX_SOCKETS, None)
    if any(name.startswith("spark.ui.") and name not in _LAUNCHERS for name in {**given, **wanted}):
        # Any setting of the web interface asks for it; spark.ui.enabled itself is kept as every setting is.
        ours.pop("spark.ui.enabled", None)
    builder = SparkSession.builder.master(where)
    for name, value in {**{name: value for name, value in ours.items() if name not in given}, **wanted, "spark.master": where}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if where.startswith("local"):
        # Workers must run this interpreter, which has the packages. Spark reads it from the environment only, which stays unchanged.
        spark.sparkContext.pythonExec = sys.executable
        # Where spark-submit has started Java, which then has another path.
        environment = spark.sparkContext.environment
        environment[_PATH] = with_folder(environment.get(_PATH))
    register(spark, tasks_max=_cores(spark, where))
    return spark


def register(spark: SparkSession, *, tasks_max: int | None = None) -> None:
    """Register the format "ottla" in a session, with at most `tasks_max` tasks per query (None: one for each range of offsets).

    Its workers must be Python interpreters that have ottla installed.
    """
    # A class made here is pickled by value, with its number: workers see neither the session nor its settings.
    spark.dataSource.register(type("OttlaDataSource", (OttlaDataSource,), {"tasks_max": tasks_max}))


def _refuse_connect(master: str | None, settings: Mapping[str, str]) -> None:
    remote = settings.get("spark.remote") or (master if (master or "").startswith("sc://") else None) or _remote_of_environment()
    if settings.get("spark.api.mode", "").lower() == "connect":
        remote = remote or "spark.api.mode=connect"
    if remote or is_remote():
        raise SparkConnectError(
            f"ottla.spark.session() starts Spark, and {remote or 'this program'} uses Spark Connect, whose server has the settings already:"
            " use SparkSession.builder.remote(...).getOrCreate(), and then"
            " spark.dataSource.register(ottla.spark.data_source.OttlaDataSource); see `ottla docs spark-cluster`"
        )


def _remote_of_environment() -> str | None:
    """The variable that makes a session one of Spark Connect: PySpark takes it before any master."""
    if os.environ.get("SPARK_REMOTE"):
        return f"the environment (SPARK_REMOTE={os.environ['SPARK_REMOTE']})"
    return "the environment (SPARK_API_MODE=connect)" if os.environ.get("SPARK_API_MODE", "").lower() == "connect" else None


def _start_java(settings: Mapping[str, str], stderr: IO[bytes] | None) -> dict[str, str]:
    """Start Spark's JVM unless spark-submit has; the settings of the JVM."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    before = {name: os.environ.get(name) for name in (_DRIVER_PYTHON, _PATH)}
    # Java asks this interpreter for formats that are installed; python3 may be one without PySpark or ottla.
    os.environ[_DRIVER_PYTHON] = before[_DRIVER_PYTHON] or sys.executable
    os.environ[_PATH] = with_folder(before[_PATH])
    try:
        is_quiet = stderr is not None and SparkContext._gateway is None
        # As SparkSession does it, only earlier: the settings of the JVM decide about the others.
        gateway = launch_gateway(conf, {"stderr": stderr}) if is_quiet else None  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        sentence = "Spark needs Java 17 or later: install it, or let JAVA_HOME point to it"
        raise JavaMissingError(f"{sentence}. It printed: {printed(stderr)}" if stderr is not None else sentence) from error
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
    return {name: value for name, value in SparkConf().getAll() if name not in _LAUNCHERS}


def with_folder(path: str | None) -> str:
    """A PYTHONPATH with the folder of our sitecustomize in front, once: in a changed environment Spark starts further processes."""
    others = path.split(os.pathsep) if path else []
    return os.pathsep.join([FOLDER, *(each for each in others if each != FOLDER)])


def printed(stderr: IO[bytes]) -> str:
    """The end of what Java and its workers have printed into a file."""
    stderr.seek(0)
    return stderr.read().decode(errors="replace")[-PRINTED_CHARACTERS_MAX:].strip()


def _temporary_folder() -> str:
    """The folder in which Java puts sockets by default."""
    return str(SparkContext._jvm.System.getProperty("java.io.tmpdir"))  # type: ignore[union-attr]


def _with_attempts(master: str) -> str:
    """local[2] as local[2,4]; other masters as they are."""
    cores = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{cores[1] or 1},{LOCAL_ATTEMPTS_MAX}]" if cores else master


def _cores(spark: SparkSession, master: str) -> int | None:
    """How many tasks run at once, where that is known when the session starts."""
    if master.startswith("local["):
        return int(spark.sparkContext.defaultParallelism)
    conf = spark.sparkContext.getConf()
    executors, cores = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
    if executors and cores:
        return int(executors) * int(cores)
    total = conf.get("spark.cores.max")
    return int(total) if total else None


class NotPlainError(ValueError):
    """A value that a shell would split or expand: the message names it."""


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """`conf` for --conf, `archives` for --archives (None: nothing is shipped), `environment` for the shell that submits.

    The environment is only for jobs that find the format by Spark's own discovery, which takes its interpreter from nowhere else. A job
    that begins with `ottla.spark.session()` needs none.
    """

    conf: Mapping[str, str]
    archives: str | None
    environment: Mapping[str, str]

    def words(self) -> list[str]:
        """The arguments as a list."""
        shipped = ["--archives", self.archives] if self.archives else []
        return [*shipped, *(word for name, value in sorted(self.conf.items()) for word in ("--conf", f"{name}={value}"))]

    def line(self) -> str:
        """The arguments as one line that a shell splits at its spaces only, since $(...) removes no quotes. Raises NotPlainError."""
        for word in self.words():
            if not _PLAIN.fullmatch(word):
                raise NotPlainError(f"{word!r} has characters that a shell would not leave alone: use paths without them, or --json")
        return " ".join(self.words())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"conf": dict(sorted(self.conf.items())), "archives": self.archives, "environment": dict(self.environment)}


def submit_arguments(python: str, *, archive: str | None = None, deploy_mode: str = CLIENT) -> SubmitArguments:
    """`python`: the interpreter that has ottla, at the same place on every machine; with `archive`, a packed environment that is shipped to
    the executors, only the driver's. In deploy mode cluster the driver runs on the cluster, too.
    """
    driver = python
    conf = {**SETTINGS, "spark.pyspark.python": python}
    if archive is not None:
        conf["spark.pyspark.python"] = f"./{UNPACKED}/bin/python"
        if deploy_mode == CLIENT:
            conf["spark.pyspark.driver.python"] = python
        else:
            driver = conf["spark.pyspark.python"]
    if deploy_mode == CLUSTER:
        # The driver's own environment, where the shell that submits does not reach it.
        conf["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] = driver
        conf["spark.kubernetes.driverEnv.PYSPARK_PYTHON"] = driver
    environment = {"PYSPARK_PYTHON": conf["spark.pyspark.python"]}
    if driver != environment["PYSPARK_PYTHON"]:
        environment["PYSPARK_DRIVER_PYTHON"] = driver
    return SubmitArguments(conf, f"{archive}#{UNPACKED}" if archive is not None else None, environment)
