"""Groups as brokers describe them; on real ones: tests/clients/test_assign.py."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ottla.cli.assign.group_state import read_group_state
from ottla.cli.assign.state import State
from ottla.cli.groups.failures import CommandFailed
from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import DescribedGroup, DescribedMember, DescribedTopic, Failure
from ottla.core.assignors import Subscriber
from ottla.core.errors import ErrorCode
from ottla.testing.kit.consumer_protocol import encode_assignment, encode_subscription

V3 = bytes.fromhex("000300000001000174ffffffff000000010001740000000200000000000000010000000700027231")
CLASSIC = DescribedMember(
    member_id="m1",
    instance_id="one",
    client_id="c",
    host="h",
    subscription_bytes=V3,
    assignment_bytes=encode_assignment({"t": [0, 1]}),
)
OTHER = DescribedMember(member_id="m2", instance_id=None, client_id="c", host="h", subscription_bytes=encode_subscription(["t", "gone"]))
GROUP = DescribedGroup(
    group_id="g",
    kind="classic",
    protocol_type="consumer",
    state="Stable",
    assignor="range",
    coordinator=BrokerEndpoint(1, "a", 1),
    members=(CLASSIC, OTHER),
)


@dataclass
class Admin:
    """Describes one group, and topics of which some have racks."""

    group: DescribedGroup | Failure
    asked: list[list[str]] = field(default_factory=list)

    def describe_groups(self, names: list[str]) -> dict[str, Any]:
        return dict.fromkeys(names, self.group)

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        self.asked.append(names)
        topics = {"t": DescribedTopic("t", {0: 1, 1: 1, 2: None}, racks={0: frozenset({"r1"})}), "u": DescribedTopic("u", {0: 1})}
        return {name: topics.get(name, Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names}


def read(group: DescribedGroup | Failure) -> State:
    return read_group_state(Admin(group), "g")  # type: ignore[arg-type]


def test_a_classic_group() -> None:
    first = Subscriber(member_id="m1", instance_id="one", topics=frozenset({"t"}), owned={"t": (0, 1)}, generation=0, rack="r1")
    second = Subscriber(member_id="m2", topics=frozenset({"t", "gone"}))
    assert read(GROUP) == State((first, second), {"t": 3}, {"t": (frozenset({"r1"}), frozenset(), frozenset())})


def test_a_group_of_kip_848() -> None:
    member = DescribedMember(
        member_id="m1", instance_id=None, client_id="c", host="h", topics=("t",), rack="r2", assigned={"t": (1,), "u": (0,)}, epoch=3
    )
    found = read(replace(GROUP, kind="consumer", members=(member,)))
    assert found.members == (
        Subscriber(member_id="m1", topics=frozenset({"t", "u"}), owned={"t": (1,), "u": (0,)}, generation=0, rack="r2"),
    )
    assert found.partitions == {"t": 3, "u": 1}
    assert hash(found.members[0].topics)


@pytest.mark.parametrize(
    ("group", "said"),
    [
        (Failure(ErrorCode.GROUP_ID_NOT_FOUND), "GroupIdNotFoundException"),
        (replace(GROUP, members=()), "has no members"),
        (replace(GROUP, protocol_type="connect"), "protocol type is 'connect'"),
        (
            replace(GROUP, state="PreparingRebalance", members=(replace(CLASSIC, subscription_bytes=b""),)),
            "in state PreparingRebalance",
        ),
        (replace(GROUP, members=(replace(CLASSIC, subscription_bytes=b"\x00"),)), "not one of Kafka's consumer protocol"),
    ],
)
def test_groups_without_known_members_are_refused(group: DescribedGroup | Failure, said: str) -> None:
    with pytest.raises(CommandFailed, match=said):
        read(group)
