from ottla.core.groups.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from ottla.core.whatif import requests
from ottla.core.whatif.behaviour import Process

PROCESS = Process(
    name="a",
    client_id="consumer",
    client_host="/h",
    instance_id="i",
    session_timeout_ms=6_000,
    rebalance_timeout_ms=8_000,
    topics=frozenset(),
    actions=(),
)


def test_every_request_has_the_members_identity() -> None:
    made = [
        requests.join("g", PROCESS, "m", assignor="range", metadata=b"", reason=None, new_id="n")(1),
        requests.sync("g", PROCESS, "m", 3, assignor="range", assignments=())(2),
        requests.heartbeat("g", PROCESS, "m", 3)(3),
        requests.leave("g", PROCESS, "m", "why")(4),
    ]
    assert [type(each) for each in made] == [JoinGroup, SyncGroup, Heartbeat, LeaveGroup]
    assert [each.reply_to for each in made] == [1, 2, 3, 4]
    assert {each.group_id for each in made} == {"g"}
