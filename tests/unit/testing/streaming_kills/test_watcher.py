"""The observer of a group: a group that is ahead of what is processed, and how many members it has."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla import Consumer
from ottla.broker import Broker
from ottla.client.admin.client import AdminClient
from ottla.core.model import TopicPartition
from ottla.testing.clients.topics import create_topic
from ottla.testing.kit.waiting import wait_until
from ottla.testing.streaming_kills.watcher import Watcher

PLACE = TopicPartition("t", 0)


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        create_topic(broker.bootstrap_servers, "t")
        yield broker.bootstrap_servers


def test_a_group_that_is_ahead_and_then_goes_back_is_noticed(servers: str):
    watcher = Watcher(servers, "g", lambda: {PLACE: 5})
    watcher.start()
    try:
        with AdminClient(servers) as admin:
            admin.commit("g", {PLACE: 5})
            wait_until(lambda: watcher.committed == {PLACE: 5}, "the commit is seen")
            assert watcher.wrong == []
            admin.commit("g", {PLACE: 6})
            wait_until(lambda: watcher.committed == {PLACE: 6}, "the commit is seen")
            admin.commit("g", {PLACE: 4})
            wait_until(lambda: watcher.committed == {PLACE: 4}, "the commit is seen")
    finally:
        watcher.close()
    assert set(watcher.wrong) == {"t-0 is committed at 6, processed up to 5", "t-0 went back from 6 to 4"}


def test_members_count_once_the_group_is_stable(servers: str):
    watcher = Watcher(servers, "g", dict[Any, Any])
    assert not watcher.has_members(1)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    consumer.subscribe(["t"])
    try:
        wait_until(lambda: watcher.has_members(1), "the member is there", lambda: consumer.poll(0.01))
        assert not watcher.has_members(2)
    finally:
        consumer.close()
    assert not watcher.has_members(1)


def test_a_broker_that_is_gone_is_no_fault_of_the_group():
    watcher = Watcher("127.0.0.1:1", "g", dict[Any, Any])
    assert not watcher.has_members(1)
    watcher.start()
    watcher.close()
    assert (watcher.checks, watcher.wrong) == (0, [])
