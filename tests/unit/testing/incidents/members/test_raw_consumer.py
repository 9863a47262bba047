"""A member of bare requests: leads, rejoins with nothing changed, and never syncs if that is wanted."""

from ottla.broker import Broker
from ottla.core.model import GroupEvent
from ottla.testing.clients.topics import create_topic
from ottla.testing.incidents.members.raw_consumer import RawConsumer
from ottla.testing.kit.waiting import wait_until

CONFIG = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}


def test_two_share_the_partitions_and_the_leader_may_join_again_for_no_reason() -> None:
    events: list[GroupEvent] = []
    with Broker(config=CONFIG, on_group_event=events.append) as broker:
        create_topic(broker.bootstrap_servers, "t", 3)
        consumers = [RawConsumer(broker.bootstrap_servers, "g", {"t": 3}, client_id=f"raw-{number}") for number in (1, 2)]
        wait_until(lambda: sorted(map(len, (each.assignment for each in consumers))) == [1, 2], "both have partitions", seconds=60)
        seen = len(events)
        next(each for each in consumers if each.leads).rejoin()
        wait_until(lambda: any(each.trigger == "LEADER_REJOIN" for each in events[seen:]), "a needless rebalance", seconds=60)
        for each in consumers:
            each.close()


def test_one_that_never_syncs_is_removed() -> None:
    events: list[GroupEvent] = []
    with Broker(config=CONFIG, on_group_event=events.append) as broker:
        create_topic(broker.bootstrap_servers, "t", 1)
        leader = RawConsumer(broker.bootstrap_servers, "g", {"t": 1}, client_id="leader", timeout_ms=1_000)
        wait_until(lambda: bool(leader.assignment), "a leader", seconds=60)
        silent = RawConsumer(broker.bootstrap_servers, "g", {"t": 1}, client_id="silent", timeout_ms=1_000, syncs=False)
        wait_until(lambda: any(each.trigger == "SYNC_TIMEOUT" for each in events), "the removal", seconds=60)
        leader.close()
        silent.close()
        assert silent.assignment == set()
