"""`ottla diagnose` on a running cluster: a real group starts, grows and shrinks; events or the offsets topic say why."""

import json
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner

from ottla.cli.commands.diagnose import COMMAND
from ottla.history.sources.evidence import Cause
from ottla.testing.waiting import wait_until


def test_a_group_that_starts_grows_and_shrinks(
    library_on: Callable[..., Any], kafka_broker: Any, unique_name: Callable[[str], str]
) -> None:
    library, group, topic = library_on(kafka_broker), unique_name("group"), unique_name("topic")
    library.create_topic(topic, 4)
    members: list[Any] = []

    def poll() -> None:
        for each in members:
            each.poll()

    def settle(shares: list[int]) -> None:
        wait_until(lambda: sorted(len(each.assignment()) for each in members) == shares, f"shares of {shares}", poll)

    members.append(library.member(group, topic, "range"))
    settle([4])
    members.append(library.member(group, topic, "range"))
    settle([2, 2])
    members.pop().close()
    settle([4])

    def rows() -> list[dict[str, Any]]:
        options = ["--bootstrap-server", kafka_broker.bootstrap_servers, "--group", group, "--json"]
        result = CliRunner().invoke(COMMAND, options)
        return [row for line in result.stdout.splitlines() if (row := json.loads(line)).get("kind") != "incident"]

    wait_until(lambda: len(rows()) >= 3, "the verdicts", poll)
    found = rows()
    members.pop().close()
    assert {row["group"] for row in found} == {group}
    assert [row["generation"] for row in found[-3:]] == sorted(row["generation"] for row in found[-3:])
    expected = [Cause.COLD_START, Cause.JOIN_NEW, Cause.LEAVE_CLOSE]
    is_ottla = kafka_broker.kind != "apache-kafka"
    for row, cause in zip([found[0], found[-2], found[-1]], expected, strict=True):
        assert cause in row["candidates"], row
    assert (found[0]["cause"], found[-1]["cause"]) == (Cause.COLD_START, Cause.LEAVE_CLOSE) or not is_ottla
    source = "group-events" if is_ottla else "offsets-topic"
    assert all(source in row["sources"] for row in found)
    assert found[-1]["members_before"] == 2
    assert found[-1]["members_after"] == 1
