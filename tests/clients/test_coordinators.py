"""With three brokers, each coordinates the groups of the partitions it leads; clients, logs and our commands name the same one."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker import Cluster
from ottla.coordinator.placement import coordinator_partition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from ottla.testing.waiting import wait_until

GROUPS = [f"pilots-{number}" for number in range(9)]


def test_every_broker_names_the_same_coordinator_and_that_one_serves_the_group(
    library_on: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.broker")
    with Cluster(brokers=3, config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        places = {group: cluster.coordinator(group) for group in GROUPS}
        for group, place in places.items():
            assert place.partition == coordinator_partition(group, 50)
            assert place.broker_id == cluster.leader("__consumer_offsets", place.partition)
            assert place.address == cluster.address(place.broker_id)
        assert {place.broker_id for place in places.values()} == {1, 2, 3}, "several brokers, several coordinators"

        for broker_id in cluster.brokers:
            with RawClient(cluster.address(broker_id)) as client:
                for found in client.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=GROUPS).coordinators:
                    assert (found.node_id, f"{found.host}:{found.port}") == (places[found.key].broker_id, places[found.key].address)

        library = library_on(cluster)
        library.create_topic("flights", 1)
        group = next(group for group, place in places.items() if place.broker_id == 3)
        member = library.member(group, "flights", "range")
        wait_until(member.assignment, "a member of a group on broker 3", member.poll)
        member.close()
    said = [line for line in caplog.messages if f"group {group} " in line]
    assert said
    assert all(line.startswith(f"[GroupCoordinator id=3 topic=__consumer_offsets partition={places[group].partition}] ") for line in said)
