"""One member of a group as bare requests on a connection of its own: no request is sent by itself, none is retried.

The member id and the generation of a response go into the next request. Works with any broker.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from tests.support.kit.consumer_protocol import encode_subscription


class RawMember:
    """A member, not joined yet. Each method sends one request (`join` a second one with the member id when the broker requires it)."""

    def __init__(self, bootstrap_servers: str, group: str, *, instance_id: str | None = None, client_id: str = "raw-member") -> None:
        self.client = RawClient(bootstrap_servers, client_id=client_id)
        self.group = group
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1

    def join(
        self,
        protocols: Sequence[tuple[str, bytes]] = (("range", encode_subscription(["flights"])),),
        *,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 10_000,
        reason: str | None = None,
    ) -> Any:
        """JoinGroup 9: the answer."""
        fields = {
            "group_id": self.group,
            "session_timeout": session_timeout_ms,
            "rebalance_timeout": rebalance_timeout_ms,
            "group_instance_id": self.instance_id,
            "protocol_type": protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols],
            "reason": reason,
        }
        answer = self.client.call(ApiKey.JOIN_GROUP, 9, **fields, member_id=self.member_id)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.client.call(ApiKey.JOIN_GROUP, 9, **fields, member_id=self.member_id)
        if answer.error_code == ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def sync(
        self, plan: Mapping[str, bytes] | None = None, *, protocol_type: str = "consumer", protocol: str = "range"
    ) -> tuple[int, bytes]:
        """SyncGroup 5, with the assignments if this is the leader: the error code, and this member's assignment."""
        assignments = [{"member_id": member_id, "assignment": part} for member_id, part in (plan or {}).items()]
        answer = self.client.call(
            ApiKey.SYNC_GROUP, 5, **self._self(), protocol_type=protocol_type, protocol_name=protocol, assignments=assignments
        )
        return int(answer.error_code), bytes(answer.assignment)

    def heartbeat(self) -> int:
        """Heartbeat 4: the error code."""
        return int(self.client.call(ApiKey.HEARTBEAT, 4, **self._self()).error_code)

    def leave(self, reason: str | None = None) -> int:
        """LeaveGroup 5: the error code."""
        leaving = {"member_id": self.member_id, "group_instance_id": self.instance_id, "reason": reason}
        answer = self.client.call(ApiKey.LEAVE_GROUP, 5, group_id=self.group, members=[leaving])
        return int(answer.members[0].error_code if answer.members else answer.error_code)

    def commit(self, topic: str, partition: int, offset: int) -> int:
        """OffsetCommit 8: the error code."""
        topics = [{"name": topic, "partitions": [{"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}]}]
        named = self._self()
        generation = named.pop("generation_id")
        answer = self.client.call(ApiKey.OFFSET_COMMIT, 8, **named, generation_id_or_member_epoch=generation, topics=topics)
        return int(answer.topics[0].partitions[0].error_code)

    def close(self) -> None:
        """Close the connection without leaving the group."""
        self.client.close()

    def _self(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
