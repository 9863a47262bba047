"""The timeouts of a group that `ottla advise --group` takes from a cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.advise import GroupTimeouts, Timeouts, read_group_timeouts
from ottla.cli.groups.failures import CommandFailed
from ottla.cli.main import main
from ottla.core.errors import ErrorCode
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.clients.raw_member import RawMember
from ottla.testing.clients.topics import create_topic


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker with a group of one static member, and one whose member has left."""
    with Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "flights", 3)
        member = RawMember(broker.bootstrap_servers, "orders", instance_id="one", client_id="worker")
        joined(member, session_timeout_ms=6_000, rebalance_timeout_ms=120_000)
        left = RawMember(broker.bootstrap_servers, "past")
        joined(left)
        assert left.leave() == ErrorCode.NONE
        yield broker.bootstrap_servers
        for each in (member, left):
            each.close()


def joined(member: RawMember, **timeouts: int) -> None:
    assert member.join(**timeouts).error_code == ErrorCode.NONE
    assert member.sync({member.member_id: b""})[0] == ErrorCode.NONE


def run(servers: str, *arguments: str) -> Any:
    return CliRunner().invoke(main, ["advise", "--bootstrap-server", servers, *arguments])


def test_timeouts_members_and_partitions_are_those_of_the_cluster(servers: str) -> None:
    found = read_group_timeouts("orders", bootstrap_server=servers, command_config=None)
    assert found == GroupTimeouts({Timeouts(6_000, 120_000): ("worker",)}, members=1, partitions=3)


def test_advice_by_them(servers: str) -> None:
    ran = run(servers, "--group", "orders", "--work-per-poll", "3m", "--set", "heartbeat.interval.ms=2000")
    assert ran.exit_code == 1
    first, second, third = ran.output.splitlines()
    assert first == "worker: session.timeout.ms=6000 max.poll.interval.ms=120000"
    assert "Set max.poll.interval.ms to 240000 (4 min)" in second
    assert third == "120000 ms / 500 records: 240 ms a record before a full poll makes the member leave."
    ran = run(servers, "--group", "orders", "--set", "heartbeat.interval.ms=3000", "--json")
    assert ran.exit_code == 1
    (own,) = json.loads(ran.output)["settings"]
    assert (own["clients"], own["session_timeout_ms"], own["advice"][0]["suggested"]) == (["worker"], 6_000, 2_000)
    assert run(servers, "--group", "orders", "--set", "heartbeat.interval.ms=2000").exit_code == 0


@pytest.mark.parametrize(("group", "words"), [("past", "past has no members now, so no timeouts"), ("none", "GroupIdNotFoundException")])
def test_a_group_without_timeouts(servers: str, group: str, words: str) -> None:
    with pytest.raises(CommandFailed, match=words):
        read_group_timeouts(group, bootstrap_server=servers, command_config=None)
    ran = run(servers, "--group", group)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Error: ")


def test_a_server_that_is_none() -> None:
    with pytest.raises(CommandFailed, match="--bootstrap-server: "):
        read_group_timeouts("g", bootstrap_server="nonsense", command_config=None)


def test_options_that_belong_together(servers: str) -> None:
    assert "--group and --bootstrap-server go together" in run(servers).output
    assert "leave them out" in run(servers, "--group", "orders", "--partitions", "3", "--members", "1").output
