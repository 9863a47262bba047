"""Arguments of spark-submit, for an installed and a shipped environment, with the driver on the client or on the cluster."""

import shlex

import pytest

from ottla.spark.sessions import LOCAL, SETTINGS
from ottla.spark.submit_args import NotPlainError, submit_arguments


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
