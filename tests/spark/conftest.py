"""One Spark session for all tests that need one: it takes longer to start than most of them take to run.

It has the JVM connector (format "kafka") beside ours where its jars can be had; a test that needs it asks for `jvm_format`.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.processes import QUICK_START_OPTIONS, ToolMissing, find_java_home
from tests.support.reference.class_archives import archive_options, spark_archive
from tests.support.reference.maven import fetch_connector

HERE = Path(__file__).parent
QUICK_WORKERS = str(HERE / "quick_workers")
"""On the path of Python workers: see the module in there."""
CHECKOUT = HERE.parent.parent
CLASSES_OF_COLUMNS = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
)
"""PySpark asks its JVM for these classes at each function of a column, and the JVM looks through some hundred jars for most answers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder has to do with Spark. Those that share the session share a worker: tests/conftest.py."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


class Connector:
    """The JVM connector's jars, or why there are none."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.jars: list[Path] = []
        self.missing: str | None = None
        try:
            self.jars = fetch_connector(CHECKOUT / ".cache", report=report)
        except ToolMissing as missing:
            self.missing = str(missing)


@pytest.fixture(scope="session")
def connector(report: Callable[[str], None]) -> Connector:
    """The JVM connector as far as it can be had here."""
    return Connector(report)


@pytest.fixture
def jvm_format(connector: Connector) -> str:
    """The format of the JVM connector, "kafka", which the session knows; where it cannot be had, the test is skipped with the reason."""
    if connector.missing is not None:
        pytest.skip(f"Spark's Kafka connector {connector.missing}")
    return "kafka"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connector: Connector, report: Callable[[str], None]) -> Iterator[object]:
    """The session of ottla.spark.session(), made small."""
    try:
        java_home = find_java_home()
    except ToolMissing as missing:
        pytest.skip(f"Spark {missing}")
    import ottla.spark
    from ottla.spark.sessions import OWN_QUERIES, SMALL

    archive = archive_options(spark_archive(CHECKOUT / ".cache"))
    if not archive:
        report("Spark has no archive of its classes and needs twice the CPU: python -m tests.support.reference.class_archives makes it.")
    settings = {
        **SMALL,
        **OWN_QUERIES,
        # Nothing of a test run stays in the checkout.
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # The tests' tables are tiny; the rest of the machine belongs to brokers and other tests.
        "spark.driver.memory": "1g",
        # Half the work of Spark's own start, and of every query's: nothing here runs long enough for the better compiler.
        # Queries leave much garbage, which is collected less often where it has room.
        "spark.driver.extraJavaOptions": " ".join((*QUICK_START_OPTIONS, "-Xms1g", "-Xmn400m", *archive)),
        # Queries over a few rows, each of them another: to generate and compile code for them was a quarter of the JVM's work.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.jars": ",".join(str(jar) for jar in connector.jars),
    }
    with pytest.MonkeyPatch.context() as environment:
        # Spark's own scripts look in fewer places than we do.
        environment.setenv("JAVA_HOME", str(java_home))
        # Where Spark looks for formats by itself it asks the environment for its Python.
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYTHONPATH", QUICK_WORKERS, prepend=os.pathsep)
        # One attempt a task: what fails here is meant to.
        session = ottla.spark.session("ottla-tests", master="local[2,1]", settings=settings)
    jvm: Any = session.sparkContext._jvm
    for name in CLASSES_OF_COLUMNS:
        vars(jvm)[name] = getattr(jvm, name)
    yield session
    session.stop()


@pytest.fixture
def quick_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of the test whose own sessions of Spark start their workers as quickly as the tests' session does."""
    monkeypatch.setenv("PYTHONPATH", QUICK_WORKERS, prepend=os.pathsep)


class Unstopped:
    """The tests' session for a command: what stops it does not."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Nothing: the tests behind need the session."""


@pytest.fixture
def session_of_commands(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in the tests' process use the tests' session."""
    monkeypatch.setattr("ottla.spark.sessions.session", lambda *_arguments, **_options: Unstopped(spark))
