"""What a session is started with, and what is said where it cannot start; Spark itself is started in tests/spark."""

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ottla.spark import session
from ottla.spark.source import OttlaDataSource


class Builder:
    """Collects what a SparkSession would be built with."""

    def __init__(self, start: Any) -> None:
        self.settings: dict[str, str] = {}
        self.start = start

    def master(self, master: str) -> "Builder":
        return self.config("master", master)

    def appName(self, name: str) -> "Builder":
        return self.config("name", name)

    def config(self, name: str, value: str) -> "Builder":
        self.settings[name] = value
        return self

    def getOrCreate(self) -> Any:
        return self.start()


def test_settings_come_together_and_the_workers_are_this_interpreter(monkeypatch: pytest.MonkeyPatch):
    spark = Mock(sparkContext=SimpleNamespace(setLogLevel=lambda level: None))
    builder = Builder(lambda: spark)
    monkeypatch.setattr(SparkSession, "builder", builder)
    assert session.local_session("mine", cores="3", settings={"spark.ui.enabled": "true", "x": "y"}) is spark
    assert builder.settings["master"] == "local[3]"
    assert builder.settings["spark.sql.session.timeZone"] == "UTC"
    assert (builder.settings["spark.ui.enabled"], builder.settings["x"]) == ("true", "y")
    assert spark.sparkContext.pythonExec == sys.executable
    spark.dataSource.register.assert_called_once_with(OttlaDataSource)


def _fail(condition: str, **parameters: str) -> Any:
    def start() -> None:
        raise PySparkRuntimeError(errorClass=condition, messageParameters=parameters)

    return start


def test_a_missing_java_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkSession, "builder", Builder(_fail("JAVA_GATEWAY_EXITED")))
    with pytest.raises(session.JavaMissingError, match="Java 17 or later"):
        session.local_session()


def test_other_failures_are_spark_s_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkSession, "builder", Builder(_fail("SESSION_OR_CONTEXT_EXISTS")))
    with pytest.raises(PySparkRuntimeError):
        session.local_session()
