"""The world of incidents: topics with records, and members of a Java and a Python client that share a group, on Ottla's broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.testing.incidents.members.settings import MemberSettings
from ottla.testing.incidents.world import World
from ottla.testing.kit.waiting import wait_until
from ottla.testing.processes.java import ToolMissing


@pytest.fixture
def world(reference: Any, tmp_path: Path) -> Iterator[World]:
    with Broker(config={"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}) as broker:
        try:
            made = World(broker.bootstrap_servers, tmp_path, class_path=reference.class_path())
        except ToolMissing as missing:
            pytest.skip(str(missing))
        with made as world:
            yield world


def test_members_of_two_clients_share_a_topic(world: World, tmp_path: Path) -> None:
    world.create_topic("t", 2)
    world.add_partitions("t", 4)
    world.set_topic_config("t", "max.message.bytes", "1000")
    members = []
    for client in ("java", "confluent"):
        settings = MemberSettings(name=client, client=client, servers=world.servers, group="g", topics=("t",), client_id=client)
        members.append(world.start_member(settings, tmp_path / f"{client}.log", is_alone=False))
    wait_until(lambda: sorted(len(each.assignment()) for each in members) == [2, 2], "both have partitions", seconds=30)
    world.remove_all_members("g", "drain")
    wait_until(lambda: world.shared_java_log.read_text().count("Successfully joined group") > 1, "the Java member joins again", seconds=30)
    for each in members:
        each.close()
    assert "Successfully joined group" in world.shared_java_log.read_text()
    world.stop_producing(["t"])
    assert world.topics == {}
    world.create_topic("old", 1)
    world.delete_topic("old")
    assert world.topics == {}
