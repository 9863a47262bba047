"""Sessions, and arguments of `spark-submit`."""

import io
import os
import re
import shlex
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, Mock

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import ottla.spark
from ottla.spark import sessions
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.python_path.sitecustomize import FOLDER
from ottla.spark.sessions import LOCAL, SETTINGS, NotPlainError, submit_arguments


class Builder:
    """Collects the settings of a SparkSession builder."""

    def __init__(self, session: Any) -> None:
        self.settings: dict[str, str] = {}
        self.session = session

    def master(self, master: str) -> "Builder":
        return self.config("spark.master", master)

    def config(self, name: str, value: str) -> "Builder":
        self.settings[name] = value
        return self

    def getOrCreate(self) -> Any:
        return self.session


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts a session where Spark has the settings `given`; returns the builder's settings and the session."""

    def start(given: dict[str, str], folder: str = "/tmp", **arguments: Any) -> tuple[dict[str, str], Any]:
        context = SimpleNamespace(
            setLogLevel=lambda level: None, pythonExec="python3", environment={"PYTHONPATH": "/mine"}, defaultParallelism=3
        )
        spark = Mock(sparkContext=context)
        builder = Builder(spark)
        context.getConf = lambda: {**given, **builder.settings}
        monkeypatch.setattr(SparkSession, "builder", builder)
        monkeypatch.setattr(sessions, "_start_java", lambda settings, _stderr: {**given, **settings})
        monkeypatch.setattr(sessions, "_temporary_folder", lambda: folder)
        assert ottla.spark.session("mine", **arguments) is spark
        return builder.settings, spark

    return start


def _tasks_max(spark: Any) -> int | None:
    (source,) = spark.dataSource.register.call_args.args
    assert issubclass(source, OttlaDataSource)
    assert source.name() == "ottla"
    return source.tasks_max


def test_on_this_machine_the_workers_are_this_interpreter_and_tasks_as_many_as_cores(started: Any):
    settings, spark = started({"spark.master": "local[*]"}, settings={"spark.ui.enabled": "true", "x": "y"})
    assert (settings["spark.master"], settings["spark.app.name"]) == ("local[*,4]", "mine")
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert (settings["spark.ui.enabled"], settings["x"]) == ("true", "y")
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.sparkContext.environment["PYTHONPATH"] == f"{FOLDER}{os.pathsep}/mine"
    assert _tasks_max(spark) == 3


@pytest.mark.parametrize(("master", "ours"), [("local", "local[1,4]"), ("local[2]", "local[2,4]"), ("local[2,1]", "local[2,1]")])
def test_a_task_on_this_machine_is_retried(started: Any, master: str, ours: str):
    assert started({}, master=master)[0]["spark.master"] == ours


def test_unix_sockets_where_their_path_is_short_on_this_machine_alone(started: Any):
    local = {"spark.master": "local[*]"}
    assert started(local, folder="/" + 59 * "t")[0][sessions.UNIX_SOCKETS] == "true"
    for given, folder in ((local, "/" + 30 * "\N{GREEK SMALL LETTER TAU}"), ({"spark.master": "yarn"}, "/tmp")):
        assert sessions.UNIX_SOCKETS not in started(given, folder=folder)[0]


def test_settings_of_spark_submit_stay(started: Any):
    given = {"spark.master": "spark://host:7077", "spark.sql.session.timeZone": "Asia/Tokyo"}
    settings, spark = started(given)
    assert settings["spark.master"] == "spark://host:7077"
    assert not {"spark.sql.session.timeZone", "spark.driver.host"} & set(settings)
    assert spark.sparkContext.pythonExec == "python3"
    assert _tasks_max(spark) is None


@pytest.mark.parametrize("cores", [{"spark.executor.instances": "3", "spark.executor.cores": "2"}, {"spark.cores.max": "6"}])
def test_the_cores_of_a_cluster_where_they_are_given(started: Any, cores: dict[str, str]):
    assert _tasks_max(started({"spark.master": "yarn", **cores})[1]) == 6


def test_settings_of_pyspark_s_launcher_do_not_count(monkeypatch: pytest.MonkeyPatch):
    launched: list[Any] = []
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda conf, gateway: launched.extend([*conf.getAll(), gateway]))
    known = [("spark.master", "local[*]"), ("spark.ui.showConsoleProgress", "true"), ("spark.ui.enabled", "true")]
    asked = SimpleNamespace(setAll=lambda pairs: SimpleNamespace(getAll=lambda: pairs))
    monkeypatch.setattr(sessions, "SparkConf", lambda loadDefaults=True: SimpleNamespace(getAll=lambda: known) if loadDefaults else asked)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    names = ("PYSPARK_DRIVER_PYTHON", "PYTHONPATH")
    monkeypatch.setattr(sessions, "launch_gateway", lambda _conf, popen: (popen, *map(os.environ.get, names)))
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for stderr, gateway in ((None, None), (io.BytesIO(), ({"stderr": ANY}, sys.executable, FOLDER))):
        launched.clear()
        assert sessions._start_java({"spark.driver.memory": "1g"}, stderr) == {"spark.master": "local[*]", "spark.ui.enabled": "true"}
        assert launched == [("spark.driver.memory", "1g"), gateway]
        assert not set(names) & set(os.environ)


def _fail(condition: str) -> Any:
    def start(**_: Any) -> None:
        raise PySparkRuntimeError(errorClass=condition, messageParameters={})

    return start


def test_the_folder_comes_once_into_the_path():
    assert sessions.with_folder(None) == sessions.with_folder("") == FOLDER
    path = os.pathsep.join([FOLDER, "/mine", "/other"])
    assert sessions.with_folder(os.pathsep.join(["/mine", "/other"])) == sessions.with_folder(path) == path


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkContext, "_ensure_initialized", _fail("JAVA_GATEWAY_EXITED"))
    with pytest.raises(sessions.JavaMissingError, match="Java 17 or later"):
        sessions.session()
    monkeypatch.setattr(SparkContext, "_gateway", object())
    with pytest.raises(sessions.JavaMissingError, match=r"Java 17 or later: .*\. It printed: no such option"):
        sessions.session(stderr=io.BytesIO(b"no such option\n"))


@pytest.mark.parametrize("given", [{"spark.ui.port": "4050"}, {"spark.ui.enabled": "true"}])
def test_the_web_interface_stays_where_it_was_asked_for(started: Any, given: dict[str, str]):
    assert started({"spark.master": "local[*]"})[0]["spark.ui.enabled"] == "false"
    assert started({"spark.master": "local[*]"}, settings=given)[0].get("spark.ui.enabled", "true") == "true"
    assert started({"spark.master": "local[*]", **given})[0].get("spark.ui.enabled", "true") == "true"


def test_on_spark_connect_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "_start_java", Mock(side_effect=AssertionError))
    for arguments in ({"master": "sc://host:15002"}, {"settings": {"spark.remote": "sc://host:15002"}}):
        with pytest.raises(sessions.SparkConnectError, match=r"sc://host:15002 uses Spark Connect, .*builder\.remote"):
            sessions.session(**arguments)
    with pytest.raises(sessions.SparkConnectError, match=r"spark\.api\.mode=connect uses Spark Connect"):
        sessions.session(settings={"spark.api.mode": "connect"})
    for name, value in (("SPARK_REMOTE", "sc://host:15002"), ("SPARK_REMOTE", "local[2]"), ("SPARK_API_MODE", "connect")):
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            with pytest.raises(sessions.SparkConnectError, match=re.escape(f"the environment ({name}={value}) uses Spark Connect")):
                sessions.session()
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(sessions.SparkConnectError, match="this program uses Spark Connect"):
        sessions.session()


def test_other_failures_are_spark_s_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkContext, "_ensure_initialized", _fail("SESSION_OR_CONTEXT_EXISTS"))
    with pytest.raises(PySparkRuntimeError):
        sessions.session()


def test_the_package_has_nothing_else():
    with pytest.raises(AttributeError, match="no attribute 'sessions2'"):
        _ = ottla.spark.sessions2


def test_an_installed_environment_is_named_once_and_our_settings_go_along():
    arguments = submit_arguments("/opt/ottla/bin/python")
    assert arguments.conf == {**SETTINGS, "spark.pyspark.python": "/opt/ottla/bin/python"}
    assert arguments.environment == {"PYSPARK_PYTHON": "/opt/ottla/bin/python"}
    assert not LOCAL.keys() & arguments.conf.keys(), "what suits one machine is not for a cluster"


def test_the_line_is_what_a_shell_makes_the_words_of():
    arguments = submit_arguments("/opt/ottla/bin/python", archive="hdfs://nn/env.tar.gz")
    assert arguments.line().split() == shlex.split(arguments.line()) == arguments.words()
    assert arguments.line().startswith("--archives hdfs://nn/env.tar.gz#ottla_env --conf spark.")
    for path in ("/my env/bin/python", "/e*/python", "/$HOME/python", "/a;b"):
        with pytest.raises(NotPlainError, match="use paths without them, or --json"):
            submit_arguments(path).line()


@pytest.mark.parametrize(
    ("mode", "driver", "environment"),
    [
        ("client", "/venv/bin/python", {"PYSPARK_PYTHON": "./ottla_env/bin/python", "PYSPARK_DRIVER_PYTHON": "/venv/bin/python"}),
        ("cluster", None, {"PYSPARK_PYTHON": "./ottla_env/bin/python"}),
    ],
)
def test_a_shipped_environment_is_the_executors_and_the_drivers_where_it_runs_beside_them(
    mode: str, driver: str | None, environment: dict[str, str]
):
    arguments = submit_arguments("/venv/bin/python", archive="env.tar.gz", deploy_mode=mode)
    assert arguments.archives == "env.tar.gz#ottla_env"
    assert arguments.conf["spark.pyspark.python"] == "./ottla_env/bin/python"
    assert arguments.conf.get("spark.pyspark.driver.python") == driver
    assert arguments.environment == environment
    names = ("spark.yarn.appMasterEnv.PYSPARK_PYTHON", "spark.kubernetes.driverEnv.PYSPARK_PYTHON")
    assert [arguments.conf.get(name) for name in names] == [None if driver else "./ottla_env/bin/python"] * 2
