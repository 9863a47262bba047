"""`ottla coordinator`: partition and broker of a group, and failures."""

import json

import pytest
from click.testing import CliRunner, Result

from ottla.broker import Broker, Cluster
from ottla.cli.clusters import CommandFailed
from ottla.cli.coordinator import find_place, lines_of, place_of
from ottla.cli.main import main
from ottla.client.admin.client import AdminClient
from ottla.protocol.model import TopicPartition


def coordinator(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["coordinator", *arguments])


def test_for_people_and_for_machines() -> None:
    result = coordinator("test-group")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, ["hash       627841412", "partition  __consumer_offsets-12 (of 50)"])
    document = json.loads(coordinator("test-group", "--partitions", "100", "--json").stdout)
    assert (document["partition"], document["partitions"], document["coordinator"]) == (12, 100, None)


def test_mistakes_and_failures() -> None:
    for arguments, words in (((), "Missing argument 'GROUP'"), (("g", "--partitions", "0"), "0 is not in the range")):
        refused = coordinator(*arguments)
        assert refused.exit_code == 2
        assert words in refused.output
    failed = coordinator("g", "--bootstrap-server", "127.0.0.1:1", "--timeout", "1")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Error: org.apache.kafka.common.errors.TimeoutException: ")


NOT_ASKED = {"bootstrap_server": None, "partitions": None, "command_config": None, "timeout_ms": 5_000}


def test_the_place_follows_from_the_name() -> None:
    place = find_place("test-group", **NOT_ASKED)
    assert (place.hash, place.partition, place.partitions, place.node) == (627841412, 12, 50, None)
    assert lines_of(place) == ["group      test-group", "hash       627841412", "partition  __consumer_offsets-12 (of 50)"]
    assert find_place("test-group", **NOT_ASKED | {"partitions": 7}).partition == 627841412 % 7
    assert place_of("", 50).document() == {
        "group": "",
        "hash": 0,
        "topic": "__consumer_offsets",
        "partition": 0,
        "partitions": 50,
        "coordinator": None,
    }


def test_the_broker_is_the_leader_of_that_partition() -> None:
    with Cluster(brokers=3, config={"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "3"}) as cluster:
        asked = NOT_ASKED | {"bootstrap_server": cluster.bootstrap_servers}
        before = find_place("test-group", **asked)
        assert (before.partitions, before.node) == (50, None)
        assert lines_of(before)[-1] == "broker     - (__consumer_offsets does not exist yet: the first group that needs it makes it)"
        cluster.coordinator("test-group")
        for broker_id in cluster.brokers:
            cluster.move_coordinator("test-group", broker_id)
            place = find_place("test-group", **asked)
            assert (place.partition, place.partitions) == (627841412 % 7, 7)
            assert place.node is not None
            assert (place.node.broker_id, f"{place.node.host}:{place.node.port}") == (broker_id, cluster.address(broker_id))
            assert lines_of(place)[-1] == f"broker     {broker_id} at {cluster.address(broker_id)}"
        with pytest.raises(CommandFailed, match="__consumer_offsets has 7 partitions here, and no partition 12: leave --partitions out"):
            find_place("test-group", **asked | {"partitions": 50})


def test_a_topic_made_by_a_commit() -> None:
    with Broker() as broker, AdminClient(broker.bootstrap_servers) as admin:
        admin.commit("g", {TopicPartition("nope", 0): 1})
        place = find_place("g", **NOT_ASKED | {"bootstrap_server": broker.bootstrap_servers})
        assert place.node is not None
        assert place.document()["coordinator"] == {"broker_id": 1, "host": place.node.host, "port": place.node.port}


def test_what_cannot_be_found() -> None:
    with pytest.raises(CommandFailed, match="'x' is no host:port"):
        find_place("g", **NOT_ASKED | {"bootstrap_server": "x"})
    with pytest.raises(CommandFailed, match="TimeoutException: Timed out waiting for a node assignment"):
        find_place("g", **NOT_ASKED | {"bootstrap_server": "127.0.0.1:1", "timeout_ms": 1})
    with pytest.raises(CommandFailed, match="the group is no text in UTF-8"):
        find_place("\udcff", **NOT_ASKED)
