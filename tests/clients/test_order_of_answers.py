"""In which order a broker writes the responses to members whose requests arrive in one iteration of its event loop."""

import asyncio
import os
import socket
from typing import Any

import pytest

from ottla.broker.network.connection import Connection
from ottla.broker.running_brokers import BrokerTask
from ottla.core.errors import ErrorCode
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import build_request
from ottla.testing.clients.raw_member import RawMember


def port_of(member: RawMember) -> int:
    with socket.socket(fileno=os.dup(member.client.fileno())) as own:
        return int(own.getsockname()[1])


def sync_request(member: RawMember, plan: dict[str, bytes]) -> Any:
    assignments = [{"member_id": member_id, "assignment": part} for member_id, part in plan.items()]
    named = {"group_id": member.group, "generation_id": member.generation, "member_id": member.member_id}
    return build_request(ApiKey.SYNC_GROUP, 5, named | {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments})


async def joined(address: str) -> tuple[RawMember, RawMember]:
    """A leader and a follower of generation 2, neither of which has sent SyncGroup."""
    leader, follower = RawMember(address, "g"), RawMember(address, "g")
    await asyncio.to_thread(leader.join)
    await asyncio.to_thread(leader.sync, {leader.member_id: b""})
    joining = asyncio.ensure_future(asyncio.to_thread(follower.join))
    while await asyncio.to_thread(leader.heartbeat) != ErrorCode.REBALANCE_IN_PROGRESS:
        await asyncio.sleep(0)
    await asyncio.to_thread(leader.join)
    await joining
    assert leader.generation == follower.generation == 2
    return leader, follower


def test_a_follower_that_syncs_with_the_leader_is_not_answered_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower's SyncGroup has the leader's assignment stored; the leader's own response waits for that as well."""
    written: list[int] = []
    write_responses = Connection.write_responses

    def note(connection: Connection) -> None:
        if connection.out:
            written.append(connection.client_port)
        write_responses(connection)

    async def story() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0")
        await task.start()
        leader, follower = await joined(task.bootstrap_servers)
        try:
            written.clear()
            asked = [(leader, sync_request(leader, {follower.member_id: b"all"})), (follower, sync_request(follower, {}))]
            for member, request in asked:
                member.client.send(request)  # in the loop's own thread: both are there when it reads next
            answers = [await asyncio.to_thread(member.client.receive, request) for member, request in asked]
            assert [(answer.error_code, bytes(answer.assignment)) for answer in answers] == [(0, b""), (0, b"all")]
            assert written == [port_of(leader), port_of(follower)]
        finally:
            leader.close()
            follower.close()
            await task.stop()

    monkeypatch.setattr(Connection, "write_responses", note)
    asyncio.run(story())
