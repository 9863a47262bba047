"""`ottla advise`: what it prints, and timeouts from the record of a group."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.advise import GroupTimeouts, Timeouts, read_group_timeouts
from ottla.cli.clusters import CommandFailed
from ottla.cli.main import main
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from tests.support.clients.raw_member import RawMember


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["advise", *arguments])
    return done.exit_code, done.output


def test_six_minutes_of_work_with_the_default_interval_is_reported_with_the_value_to_set() -> None:
    status, said = run("--work-per-poll", "6m")
    assert status == 1
    assert "The work on one poll takes 6 min and max.poll.interval.ms is 5 min: the member will leave" in said
    assert "Set max.poll.interval.ms to 420000 (7 min), or max.poll.records to 416" in said


def test_a_session_has_room_for_three_heartbeats() -> None:
    assert run("--set", "session.timeout.ms=6000", "--set", "heartbeat.interval.ms=2000")[0] == 0
    status, said = run("--set", "session.timeout.ms=6000", "--set", "heartbeat.interval.ms=3000")
    assert status == 1
    assert "set heartbeat.interval.ms to 2000, or session.timeout.ms to 9000" in said


def test_the_arithmetic_of_a_record_and_of_partitions() -> None:
    status, said = run("--partitions", "24", "--members", "5")
    assert (status, said.splitlines()[0]) == (0, "300000 ms / 500 records: 600 ms a record before a full poll makes the member leave.")
    assert "24 partitions over 5 members: 4 of them read 5, the others 4." in said
    assert "24 partitions" not in run("--partitions", "24", "--members", "6")[1]


def test_a_file_of_properties_counts_and_the_command_line_goes_before_it(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("# a consumer\ngroup.id=g\nmax.poll.records = 100\nmax.poll.interval.ms: 60000\n")
    assert run("--properties", str(file), "--work-per-poll", "90s")[0] == 1
    assert run("--properties", str(file), "--set", "max.poll.interval.ms=120000", "--work-per-poll", "90s")[0] == 0


def test_session_and_heartbeats_of_the_consumer_protocol_are_settings_of_the_group(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.protocol=consumer\nmax.poll.interval.ms=60000\n")
    assert run("--properties", str(file), "--work-per-poll", "90s")[0] == 1
    status, said = run("--properties", str(file), "--set", "session.timeout.ms=10000")
    assert status == 2
    assert "consumer.session.timeout.ms of their group" in " ".join(said.split())


def test_json() -> None:
    status, said = run("--work-per-poll", "360000ms", "--json")
    assert status == 1
    document = json.loads(said)
    assert document["record_budget_ms"] == 600
    assert document["uneven"] is None
    (advice,) = document["advice"]
    assert (advice["setting"], advice["value"], advice["suggested"]) == ("max.poll.interval.ms", 300_000, 420_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--work-per-poll", "6"], "write a number with ms, s, m or h"),
        (["--work-per-poll", "6 weeks"], "write a number with ms, s, m or h"),
        (["--set", "group.id=g"], "write one of session.timeout.ms"),
        (["--set", "max.poll.records"], "write one of session.timeout.ms"),
        (["--work-per-poll", "169h"], "write at most 168h"),
        (["--work-per-poll", "9" * 400 + "h"], "write at most 168h"),
        (["--set", "max.poll.records=0"], "write a whole number from 1 to 2147483647"),
        (["--set", "max.poll.records=many"], "write a whole number from 1 to 2147483647"),
        (["--set", "max.poll.records=2147483648"], "write a whole number from 1 to 2147483647"),
        (["--set", "max.poll.records=" + "9" * 5000], "write a whole number from 1 to 2147483647"),
        (["--members", "3"], "--partitions and --members go together"),
    ],
)
def test_what_cannot_be_judged(arguments: list[str], words: str) -> None:
    status, said = run(*arguments)
    assert status == 2
    assert words in said


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker with a group of one static member, and one whose member has left."""
    settings = {"group.consumer.session.timeout.ms": "45000", "group.consumer.heartbeat.interval.ms": "15000"}
    with Broker(config=settings) as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, "flights", 3)
        member = RawMember(broker.bootstrap_servers, "orders", instance_id="one", client_id="worker")
        joined(member, session_timeout_ms=6_000, rebalance_timeout_ms=120_000)
        as_aiokafka = RawMember(broker.bootstrap_servers, "aio", client_id="aio")
        joined(as_aiokafka, session_timeout_ms=10_000, rebalance_timeout_ms=10_000)
        left = RawMember(broker.bootstrap_servers, "past")
        joined(left)
        assert left.leave() == ErrorCode.NONE
        for client_id in ("new-a", "new-b"):
            with RawClient(broker.bootstrap_servers, client_id=client_id) as consumer:
                answer = consumer.call(
                    ApiKey.CONSUMER_GROUP_HEARTBEAT,
                    1,
                    group_id="new",
                    member_id=f"member-{client_id}",
                    member_epoch=0,
                    instance_id=None,
                    rack_id=None,
                    rebalance_timeout=120_000,
                    subscribed_topic_names=["flights"],
                    subscribed_topic_regex=None,
                    server_assignor=None,
                    topic_partitions=[],
                )
                assert answer.error_code == ErrorCode.NONE
        yield broker.bootstrap_servers
        for each in (member, as_aiokafka, left):
            each.close()


def joined(member: RawMember, **timeouts: int) -> None:
    assert member.join(**timeouts).error_code == ErrorCode.NONE
    assert member.sync({member.member_id: b""})[0] == ErrorCode.NONE


def run_advise(servers: str, *arguments: str) -> Any:
    return CliRunner().invoke(main, ["advise", "--bootstrap-server", servers, *arguments])


def test_timeouts_members_and_partitions_are_those_of_the_cluster(servers: str) -> None:
    found = read_group_timeouts("orders", bootstrap_server=servers, command_config=None)
    assert found == GroupTimeouts({Timeouts(6_000, 120_000): ("worker",)}, members=1, partitions=3)


def test_advice_by_them(servers: str) -> None:
    ran = run_advise(servers, "--group", "orders", "--work-per-poll", "3m", "--set", "heartbeat.interval.ms=2000")
    assert ran.exit_code == 1
    first, second, third = ran.output.splitlines()
    assert first == "worker: session.timeout.ms=6000 max.poll.interval.ms=120000"
    assert "Set max.poll.interval.ms to 240000 (4 min)" in second
    assert third == "120000 ms / 500 records: 240 ms a record before a full poll makes the member leave."
    ran = run_advise(servers, "--group", "orders", "--set", "heartbeat.interval.ms=3000", "--json")
    assert ran.exit_code == 1
    (own,) = json.loads(ran.output)["settings"]
    assert (own["clients"], own["session_timeout_ms"], own["advice"][0]["suggested"]) == (["worker"], 6_000, 2_000)
    assert run_advise(servers, "--group", "orders", "--set", "heartbeat.interval.ms=2000").exit_code == 0


def test_a_rebalance_timeout_that_is_the_session_timeout_is_no_poll_interval(servers: str) -> None:
    ran = run_advise(servers, "--group", "aio", "--work-per-poll", "3m")
    assert (ran.exit_code, ran.output.splitlines()[0]) == (0, "aio: session.timeout.ms=10000 max.poll.interval.ms=300000")
    assert "as aiokafka does" in ran.output


def test_a_group_of_the_consumer_protocol_has_session_and_heartbeats_of_its_settings(servers: str) -> None:
    found = read_group_timeouts("new", bootstrap_server=servers, command_config=None)
    assert found == GroupTimeouts({Timeouts(45_000, 120_000, 15_000): ("new-a", "new-b")}, members=2, partitions=3)
    ran = run_advise(servers, "--group", "new", "--work-per-poll", "3m")
    assert ran.exit_code == 1
    first, second, *_ = ran.output.splitlines()
    settings = "consumer.session.timeout.ms=45000 consumer.heartbeat.interval.ms=15000 max.poll.interval.ms=120000"
    assert first == f"new-a, new-b: {settings}"
    assert "Set max.poll.interval.ms to 240000 (4 min)" in second


@pytest.mark.parametrize(("group", "words"), [("past", "past has no members now, so no timeouts"), ("none", "GroupIdNotFoundException")])
def test_a_group_without_timeouts(servers: str, group: str, words: str) -> None:
    with pytest.raises(CommandFailed, match=words):
        read_group_timeouts(group, bootstrap_server=servers, command_config=None)
    ran = run_advise(servers, "--group", group)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Error: ")


def test_a_server_that_is_none() -> None:
    with pytest.raises(CommandFailed, match="--bootstrap-server: "):
        read_group_timeouts("g", bootstrap_server="nonsense", command_config=None)


def test_options_that_belong_together(servers: str) -> None:
    assert "--group and --bootstrap-server go together" in run_advise(servers).output
    assert "leave them out" in run_advise(servers, "--group", "orders", "--partitions", "3", "--members", "1").output
