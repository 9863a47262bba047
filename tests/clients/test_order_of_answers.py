"""In which order a broker writes the responses to members whose requests arrive in one iteration of its event loop."""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.broker.network.connection import Connection
from ottla.broker.running_brokers import BrokerTask
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import build_request, create_topic
from tests.support.clients.raw_member import RawMember

Asked = Sequence[tuple[RawMember, Any]]


def port_of(member: RawMember) -> int:
    with socket.socket(fileno=os.dup(member.client.fileno())) as own:
        return int(own.getsockname()[1])


def named(member: RawMember) -> dict[str, Any]:
    return {"group_id": member.group, "generation_id": member.generation, "member_id": member.member_id}


def sync_request(member: RawMember, plan: dict[str, bytes]) -> Any:
    assignments = [{"member_id": member_id, "assignment": part} for member_id, part in plan.items()]
    fields = {"protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}
    return build_request(ApiKey.SYNC_GROUP, 5, named(member) | fields)


def heartbeat_request(member: RawMember, generation: int = 2) -> Any:
    return build_request(ApiKey.HEARTBEAT, 4, named(member) | {"generation_id": generation})


def commit_request(member: RawMember) -> Any:
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    fields = {"generation_id_or_member_epoch": member.generation, "topics": [{"name": "t", "partitions": [part]}]}
    return build_request(ApiKey.OFFSET_COMMIT, 8, {"group_id": member.group, "member_id": member.member_id} | fields)


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


async def synced(address: str) -> tuple[RawMember, RawMember]:
    """The same, of a Stable group which has an offset: the first one makes another kind of change."""
    leader, follower = await joined(address)
    await asyncio.to_thread(create_topic, address, "t", 1)
    await asyncio.to_thread(leader.sync, {follower.member_id: b""})
    await asyncio.to_thread(follower.sync)
    await asyncio.to_thread(leader.commit, "t", 0, 1)
    return leader, follower


def answers_in_order(
    monkeypatch: pytest.MonkeyPatch, members: Callable[[str], Any], ask: Callable[[RawMember, RawMember], Asked]
) -> list[Any]:
    """Two members send what `ask` gives in one iteration; the answers, which must be written in the order of the requests."""
    written: list[int] = []
    write_responses = Connection.write_responses

    def note(connection: Connection) -> None:
        if connection.out:
            written.append(connection.session.client_port)
        write_responses(connection)

    async def story() -> list[Any]:
        task = BrokerTask(None, {}, "127.0.0.1:0")
        await task.start()
        leader, follower = await members(task.bootstrap_servers)
        try:
            written.clear()
            asked = ask(leader, follower)
            for member, request in asked:
                member.client.send(request)  # in the loop's own thread: all are there when it reads next
            answers = [await asyncio.to_thread(member.client.receive, request) for member, request in asked]
            assert written == [port_of(member) for member, _ in asked]
            return answers
        finally:
            leader.close()
            follower.close()
            await task.stop()

    monkeypatch.setattr(Connection, "write_responses", note)
    return asyncio.run(story())


def test_a_follower_that_syncs_with_the_leader_is_not_answered_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower's SyncGroup has the leader's assignment stored; the leader's own response waits for that as well."""

    def ask(leader: RawMember, follower: RawMember) -> Asked:
        return [(leader, sync_request(leader, {follower.member_id: b"all"})), (follower, sync_request(follower, {}))]

    answers = answers_in_order(monkeypatch, joined, ask)
    assert [(answer.error_code, bytes(answer.assignment)) for answer in answers] == [(0, b""), (0, b"all")]


@pytest.mark.parametrize(("generation", "error"), [(2, ErrorCode.NONE), (1, ErrorCode.ILLEGAL_GENERATION)])
def test_a_heartbeat_is_not_answered_before_the_commit_that_came_first(
    monkeypatch: pytest.MonkeyPatch, generation: int, error: ErrorCode
) -> None:
    """The commit's response waits until the offset is in the log; Apache Kafka handles the requests of a group one after the other."""

    def ask(leader: RawMember, follower: RawMember) -> Asked:
        return [(leader, commit_request(leader)), (follower, heartbeat_request(follower, generation))]

    commit, heartbeat = answers_in_order(monkeypatch, synced, ask)
    assert commit.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert heartbeat.error_code == error
