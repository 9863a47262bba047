"""`ottla spark-submit-args`: one line for a shell, or JSON. That a cluster runs with it is shown in tests/spark/test_cluster.py."""

import json
import sys

from click.testing import CliRunner

from ottla.cli.main import main


def test_one_line_with_the_running_interpreter():
    done = CliRunner().invoke(main, ["spark-submit-args"])
    assert done.exit_code == 0, done.output
    assert done.output.count("\n") == 1
    words = done.output.split()
    assert words[::2] == ["--conf"] * (len(words) // 2)
    assert f"spark.pyspark.python={sys.executable}" in words
    assert "spark.python.daemon.module=ottla.spark.daemon" in words


def test_json_has_what_a_line_cannot():
    done = CliRunner().invoke(main, ["spark-submit-args", "--python", "/my env/python", "--archive", "e.zip", "--json"])
    found = json.loads(done.output)
    assert found["archives"] == "e.zip#ottla_env"
    assert found["environment"]["PYSPARK_DRIVER_PYTHON"] == found["conf"]["spark.pyspark.driver.python"] == "/my env/python"
    refused = CliRunner().invoke(main, ["spark-submit-args", "--python", "/my env/python"])
    assert refused.exit_code == 1
    assert "has characters that a shell would not leave alone" in refused.output
