"""`ottla coordinator` as a command."""

import json

from click.testing import CliRunner, Result

from ottla.cli.main import main


def coordinator(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["coordinator", *arguments])


def test_for_people_and_for_machines() -> None:
    result = coordinator("test-group")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, ["hash       627841412", "partition  __consumer_offsets-12 (of 50)"])
    document = json.loads(coordinator("test-group", "--partitions", "100", "--json").stdout)
    assert (document["partition"], document["partitions"], document["coordinator"]) == (12, 100, None)


def test_mistakes_and_failures() -> None:
    assert coordinator().exit_code == 2
    assert coordinator("g", "--partitions", "0").exit_code == 2
    failed = coordinator("g", "--bootstrap-server", "127.0.0.1:1", "--timeout", "1")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Error: org.apache.kafka.common.errors.TimeoutException: ")
