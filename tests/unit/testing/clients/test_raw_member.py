"""A member as bare requests, through its life."""

from ottla.broker import Broker
from ottla.testing.clients.raw_member import RawMember


def test_the_life_of_a_member() -> None:
    with Broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        member = RawMember(broker.bootstrap_servers, "g")
        answer = member.join()
        assert (answer.error_code, member.generation, answer.leader) == (0, 1, member.member_id)
        assert member.sync({member.member_id: b"all"}) == (0, b"all")
        assert member.heartbeat() == 0
        assert member.commit("flights", 0, 5) == 3, "there is no such topic"
        assert member.leave() == 0
        assert member.heartbeat() == 25
        member.close()
