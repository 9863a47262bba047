"""Every version of the APIs about groups and their offsets, with both brokers: members live through the same life in each version."""

import uuid
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from tests.support.kit.consumer_protocol import encode_subscription

UNKNOWN_ID = uuid.UUID(int=12345)

pytestmark = pytest.mark.kafka


class Member:
    """A member of a group; every answer about it is compared."""

    def __init__(self, talk: Any, group: str, version: int, *, api: int) -> None:
        self.talk, self.group, self.api, self.version = talk, group, api, version
        self.member_id, self.generation = "", -1

    def _version(self, api_key: int, otherwise: int) -> int:
        return self.version if api_key == self.api else otherwise

    def join(self, otherwise: int = 5, **values: Any) -> Any:
        base = {
            "group_id": self.group,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": encode_subscription(["flights"])}],
        }
        answer = self.talk.ask(ApiKey.JOIN_GROUP, self._version(ApiKey.JOIN_GROUP, otherwise), **(base | values))
        if (
            answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
            and values.get("member_id", self.member_id) == self.member_id
        ):
            self.member_id, self.generation = answer.member_id, int(answer.generation_id)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                return self.join(otherwise, **values)
        return answer

    def sync(self, otherwise: int = 3, **values: Any) -> Any:
        base = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": self.member_id, "assignment": b"all"}],
        }
        return self.talk.ask(ApiKey.SYNC_GROUP, self._version(ApiKey.SYNC_GROUP, otherwise), **(base | values))

    def heartbeat(self, otherwise: int = 3, **values: Any) -> Any:
        base = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        return self.talk.ask(ApiKey.HEARTBEAT, self._version(ApiKey.HEARTBEAT, otherwise), **(base | values))

    def leave(self, otherwise: int = 2, **values: Any) -> Any:
        base = {"group_id": self.group, "member_id": self.member_id, "members": [{"member_id": self.member_id}]}
        return self.talk.ask(ApiKey.LEAVE_GROUP, self._version(ApiKey.LEAVE_GROUP, otherwise), **(base | values))


def new_member(talk: Any, api: int, group: str = "group") -> Member:
    name = talk.name(group)
    talk.wait_for_coordinator(name)
    return Member(talk, name, talk.version, api=api)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        group = talk.name("group")
        talk.wait_for_coordinator(group)
        talk.ask(ApiKey.FIND_COORDINATOR, key=group, coordinator_keys=[group])
        talk.ask(ApiKey.FIND_COORDINATOR, key="", coordinator_keys=[""])
        if version >= 1:
            talk.ask(ApiKey.FIND_COORDINATOR, key=group, key_type=9, coordinator_keys=[group])
        if version >= 4:
            talk.ask(ApiKey.FIND_COORDINATOR, coordinator_keys=[])
            talk.ask(ApiKey.FIND_COORDINATOR, coordinator_keys=[group, group])

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(10))
def test_join_group(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.JOIN_GROUP)
        member.join()
        member.join()
        member.sync()
        member.join()
        member.sync()
        member.join(group_id="")
        member.join(session_timeout=100)
        member.join(member_id="unknown")
        member.join(member_id="", protocol_type="connect")
        member.join(member_id="", protocols=[{"name": "other", "metadata": b""}])
        member.join(member_id="", protocols=[])
        member.join(member_id="", protocol_type="")
        refused = new_member(talk, ApiKey.JOIN_GROUP, "refused")
        refused.join(protocols=[])
        # Apache Kafka answers before the empty group is written, and shows it only then.
        talk.until(lambda: talk.quietly(ApiKey.DESCRIBE_GROUPS, 6, groups=[refused.group]).groups[0].group_state == "Empty", "the group")
        talk.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=[refused.group])
        if version >= 5:
            static = new_member(talk, ApiKey.JOIN_GROUP, "static")
            named = {"group_instance_id": "gate-1"}
            static.join(**named)
            static.sync(group_instance_id="gate-1")
            static.join(member_id="unknown", **named)
            static.join(member_id="", **named)
            static.heartbeat(group_instance_id="gate-1")
            for number, instance_id in enumerate(("", "no spaces", "x" * 300)):
                new_member(talk, ApiKey.JOIN_GROUP, f"named-{number}").join(group_instance_id=instance_id)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(6))
def test_sync_group(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.SYNC_GROUP)
        member.sync(member_id="unknown")
        member.join()
        member.sync(generation_id=9)
        member.sync(member_id="unknown")
        member.sync(group_id="")
        if version >= 5:
            member.sync(protocol_type="connect")
            member.sync(protocol_name="other")
            member.sync(protocol_type=None)
        member.sync()
        member.sync()
        member.leave()
        member.sync()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(5))
def test_heartbeat(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.HEARTBEAT)
        member.heartbeat(member_id="unknown")
        member.join()
        member.heartbeat()
        member.sync()
        member.heartbeat()
        member.heartbeat(generation_id=0)
        member.heartbeat(member_id="unknown")
        member.heartbeat(group_id="")
        if version >= 3:
            member.heartbeat(group_instance_id="gate-1")
        member.leave()
        member.heartbeat()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(6))
def test_leave_group(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.LEAVE_GROUP)
        member.leave(member_id="unknown", members=[{"member_id": "unknown"}])
        member.join()
        member.sync()
        member.leave(member_id="unknown", members=[{"member_id": "unknown"}])
        member.leave(group_id="")
        if version >= 3:
            member.leave(members=[])
            member.leave(members=[{"member_id": "unknown"}, {"member_id": member.member_id}])
            member.leave(members=[{"member_id": "", "group_instance_id": "gate-1"}])
        else:
            member.leave()
        member.leave()

    same_answers(conversation, version)


@pytest.mark.conformance("OffsetCommitRequestTest.testOffsetCommitWithOldConsumerGroupProtocol")
@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        naming = {"name": topic, "topic_id": talk.make_topic(topic, 2)}
        member = new_member(talk, ApiKey.OFFSET_COMMIT)

        def commit(partition: int = 0, offset: int = 5, metadata: str | None = "", *, naming: Any = naming, **values: Any) -> None:
            part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            base = {"group_id": member.group, "generation_id_or_member_epoch": -1, "retention_time": -1}
            talk.ask(ApiKey.OFFSET_COMMIT, topics=[naming | {"partitions": [part]}], **(base | values))

        commit()
        commit(1, 7, "a note")
        commit(1, 7, None)
        commit(0, 8, "x" * 4096)
        commit(0, 8, "x" * 4097)
        commit(9)
        commit(0, -1)
        commit(naming={"name": talk.name("nowhere"), "topic_id": UNKNOWN_ID})
        commit(group_id="")
        commit(generation_id_or_member_epoch=3, member_id="unknown")
        commit(generation_id_or_member_epoch=-1, member_id="unknown")
        member.join()
        commit()
        commit(generation_id_or_member_epoch=member.generation, member_id=member.member_id)
        member.sync()
        commit()
        commit(generation_id_or_member_epoch=member.generation, member_id=member.member_id)
        commit(generation_id_or_member_epoch=member.generation + 1, member_id=member.member_id)
        commit(generation_id_or_member_epoch=member.generation, member_id="unknown")
        if version >= 7:
            commit(generation_id_or_member_epoch=member.generation, member_id=member.member_id, group_instance_id="gate-1")
        talk.ask(ApiKey.OFFSET_COMMIT, group_id=talk.name("new"), generation_id_or_member_epoch=-1, topics=[])
        member.leave()

    same_answers(conversation, version)


@pytest.mark.conformance(
    "OffsetFetchRequestTest.testSingleGroupOffsetFetchWithOldConsumerGroupProtocol",
    "OffsetFetchRequestTest.testSingleGroupAllOffsetFetchWithOldConsumerGroupProtocol",
    "OffsetFetchRequestTest.testMultiGroupsOffsetFetchWithOldConsumerGroupProtocol",
)
@pytest.mark.parametrize("version", range(1, 11))
def test_offset_fetch(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        group, topic = talk.name("group"), talk.name("topic")
        topic_id = talk.make_topic(topic, 3)
        talk.wait_for_coordinator(group)
        parts = [
            {"partition_index": 0, "committed_offset": 5, "committed_metadata": "five", "committed_leader_epoch": 0},
            {"partition_index": 2, "committed_offset": 7, "committed_metadata": "", "committed_leader_epoch": -1},
        ]
        commit = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": [{"name": topic, "partitions": parts}]}
        talk.quietly(ApiKey.OFFSET_COMMIT, 8, **commit)

        def fetch(group: str, topics: Any, **values: Any) -> None:
            talk.ask(ApiKey.OFFSET_FETCH, group_id=group, topics=topics, groups=[{"group_id": group, "topics": topics}], **values)

        fetch(group, [{"name": topic, "topic_id": topic_id, "partition_indexes": [0, 1, 2, 9]}])
        fetch(group, [{"name": talk.name("nowhere"), "topic_id": UNKNOWN_ID, "partition_indexes": [0]}])
        fetch(talk.name("unknown"), [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}])
        fetch("", [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}])
        fetch(group, [])
        if version >= 2:
            fetch(group, None)
            fetch(talk.name("unknown"), None)
        if version >= 7:
            fetch(group, [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}], require_stable=True)
        if version >= 8:
            topics = [{"name": topic, "topic_id": topic_id, "partition_indexes": [2]}]
            other, second = talk.name("other-group"), talk.name("second-topic")
            second_id = talk.make_topic(second, 2)
            of_second = [{"name": second, "partitions": [{"partition_index": 1, "committed_offset": 11, "committed_metadata": "eleven"}]}]
            talk.quietly(ApiKey.OFFSET_COMMIT, 8, group_id=other, generation_id_or_member_epoch=-1, topics=[*commit["topics"], *of_second])
            both = [*topics, {"name": second, "topic_id": second_id, "partition_indexes": [0, 1]}]
            talk.ask(
                ApiKey.OFFSET_FETCH,
                groups=[
                    {"group_id": group, "topics": topics},
                    {"group_id": other, "topics": both},
                    {"group_id": other, "topics": None},
                    {"group_id": talk.name("unknown"), "topics": topics},
                ],
            )
            talk.ask(ApiKey.OFFSET_FETCH, groups=[])
        if version >= 9:
            talk.ask(ApiKey.OFFSET_FETCH, groups=[{"group_id": group, "topics": topics, "member_id": "unknown", "member_epoch": 3}])

    same_answers(conversation, version)


@pytest.mark.conformance("DescribeGroupsRequestTest.testDescribeGroupsWithOldConsumerGroupProtocol")
@pytest.mark.parametrize("version", range(7))
def test_describe_groups(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.DESCRIBE_GROUPS)
        talk.ask(ApiKey.DESCRIBE_GROUPS, groups=[member.group])
        member.join()
        talk.ask(ApiKey.DESCRIBE_GROUPS, groups=[member.group])
        member.sync()
        talk.ask(ApiKey.DESCRIBE_GROUPS, groups=[member.group, talk.name("unknown"), ""])
        talk.ask(ApiKey.DESCRIBE_GROUPS, groups=[])
        if version >= 3:
            talk.ask(ApiKey.DESCRIBE_GROUPS, groups=[member.group], include_authorized_operations=True)
        member.leave()
        talk.ask(ApiKey.DESCRIBE_GROUPS, groups=[member.group])

    same_answers(conversation, version)


@pytest.mark.conformance("ListGroupsRequestTest.testListGroupsWithOldConsumerGroupProtocolAndNewGroupCoordinator")
@pytest.mark.parametrize("version", range(6))
def test_list_groups(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.LIST_GROUPS)

        def listed(**values: Any) -> None:
            answer = talk.quietly(ApiKey.LIST_GROUPS, version, **values)
            own = [each for each in answer.groups if each.group_id == member.group]
            talk.answers.append((int(answer.error_code), [talk._comparable(each) for each in own]))

        listed()
        member.join()
        listed()
        member.sync()
        listed()
        if version >= 4:
            listed(states_filter=["Stable"])
            listed(states_filter=["stable"])
            listed(states_filter=["Empty", "Dead"])
            listed(states_filter=["NoSuchState"])
        if version >= 5:
            listed(types_filter=["classic"])
            listed(types_filter=["Classic"])
            listed(types_filter=["consumer"])
            listed(types_filter=["nosuch"])
        member.leave()
        listed()

    same_answers(conversation, version)


@pytest.mark.conformance("DeleteGroupsRequestTest.testDeleteGroupsWithOldConsumerGroupProtocol")
@pytest.mark.parametrize("version", range(3))
def test_delete_groups(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, ApiKey.DELETE_GROUPS)
        talk.ask(ApiKey.DELETE_GROUPS, groups_names=[member.group])
        member.join()
        member.sync()
        talk.ask(ApiKey.DELETE_GROUPS, groups_names=[member.group, talk.name("unknown"), ""])
        member.leave()
        talk.ask(ApiKey.DELETE_GROUPS, groups_names=[member.group])
        talk.ask(ApiKey.DELETE_GROUPS, groups_names=[member.group])
        talk.ask(ApiKey.DELETE_GROUPS, groups_names=[])

    same_answers(conversation, version)


@pytest.mark.conformance("OffsetDeleteRequestTest.testOffsetDeleteWithOldConsumerGroupProtocolAndNewGroupCoordinator")
def test_offset_delete(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2)
        member = new_member(talk, ApiKey.OFFSET_DELETE)

        def delete(group: str = member.group, name: str = topic, partition: int = 0) -> None:
            talk.ask(ApiKey.OFFSET_DELETE, group_id=group, topics=[{"name": name, "partitions": [{"partition_index": partition}]}])

        delete()
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        commit = {"group_id": member.group, "topics": [{"name": topic, "partitions": [part]}]}
        talk.quietly(ApiKey.OFFSET_COMMIT, 8, generation_id_or_member_epoch=-1, **commit)
        delete(partition=1)
        delete(partition=9)
        delete(name=talk.name("nowhere"))
        delete(group="")
        member.join(protocols=[{"name": "range", "metadata": encode_subscription([topic])}])
        delete()
        member.sync()
        delete()
        delete(partition=1)
        delete(name=talk.name("nowhere"))
        member.leave()
        delete()
        talk.ask(ApiKey.OFFSET_DELETE, group_id=member.group, topics=[])
        delete(talk.name("unknown"))
        asked = [{"name": topic, "partition_indexes": [0]}]
        talk.ask(ApiKey.OFFSET_FETCH, 5, group_id=member.group, topics=asked)

    same_answers(conversation, 0)
