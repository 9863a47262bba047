"""Every version of the APIs about groups and their offsets, with both brokers: members live through the same life in each version."""

import uuid
from typing import Any

import pytest

from ottla.testing.sim_protocol import encode_subscription

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 8, 9, 10, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 15, 16, 42, 47
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
        answer = self.talk.ask(JOIN_GROUP, self._version(JOIN_GROUP, otherwise), **(base | values))
        if answer.error_code in (0, 79) and values.get("member_id", self.member_id) == self.member_id:
            self.member_id, self.generation = answer.member_id, int(answer.generation_id)
            if answer.error_code == 79:
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
        return self.talk.ask(SYNC_GROUP, self._version(SYNC_GROUP, otherwise), **(base | values))

    def heartbeat(self, otherwise: int = 3, **values: Any) -> Any:
        base = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id}
        return self.talk.ask(HEARTBEAT, self._version(HEARTBEAT, otherwise), **(base | values))

    def leave(self, otherwise: int = 2, **values: Any) -> Any:
        base = {"group_id": self.group, "member_id": self.member_id, "members": [{"member_id": self.member_id}]}
        return self.talk.ask(LEAVE_GROUP, self._version(LEAVE_GROUP, otherwise), **(base | values))


def new_member(talk: Any, api: int, group: str = "group") -> Member:
    name = talk.name(group)
    talk.wait_for_coordinator(name)
    return Member(talk, name, talk.version, api=api)


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        group = talk.name("group")
        talk.wait_for_coordinator(group)
        talk.ask(FIND_COORDINATOR, key=group, coordinator_keys=[group])
        talk.ask(FIND_COORDINATOR, key="", coordinator_keys=[""])
        if version >= 1:
            talk.ask(FIND_COORDINATOR, key=group, key_type=9, coordinator_keys=[group])
        if version >= 4:
            talk.ask(FIND_COORDINATOR, coordinator_keys=[])
            talk.ask(FIND_COORDINATOR, coordinator_keys=[group, group])

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(10))
def test_join_group(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, JOIN_GROUP)
        member.join()
        member.join()
        member.sync()
        member.join()
        member.sync()
        member.join(group_id="")
        member.join(session_timeout=100)
        member.join(member_id="nobody")
        member.join(member_id="", protocol_type="connect")
        member.join(member_id="", protocols=[{"name": "other", "metadata": b""}])
        member.join(member_id="", protocols=[])
        member.join(member_id="", protocol_type="")
        refused = new_member(talk, JOIN_GROUP, "refused")
        refused.join(protocols=[])
        # Apache Kafka answers before the empty group is written, and shows it only then.
        talk.until(lambda: talk.quietly(DESCRIBE_GROUPS, 6, groups=[refused.group]).groups[0].group_state == "Empty", "the group")
        talk.ask(DESCRIBE_GROUPS, 6, groups=[refused.group])
        if version >= 5:
            static = new_member(talk, JOIN_GROUP, "static")
            named = {"group_instance_id": "gate-1"}
            static.join(**named)
            static.sync(group_instance_id="gate-1")
            static.join(member_id="nobody", **named)
            static.join(member_id="", **named)
            static.heartbeat(group_instance_id="gate-1")
            for number, instance_id in enumerate(("", "no spaces", "x" * 300)):
                new_member(talk, JOIN_GROUP, f"named-{number}").join(group_instance_id=instance_id)

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(6))
def test_sync_group(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, SYNC_GROUP)
        member.sync(member_id="nobody")
        member.join()
        member.sync(generation_id=9)
        member.sync(member_id="nobody")
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
        member = new_member(talk, HEARTBEAT)
        member.heartbeat(member_id="nobody")
        member.join()
        member.heartbeat()
        member.sync()
        member.heartbeat()
        member.heartbeat(generation_id=0)
        member.heartbeat(member_id="nobody")
        member.heartbeat(group_id="")
        if version >= 3:
            member.heartbeat(group_instance_id="gate-1")
        member.leave()
        member.heartbeat()

    same_answers(conversation, version)


@pytest.mark.parametrize("version", range(6))
def test_leave_group(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, LEAVE_GROUP)
        member.leave(member_id="nobody", members=[{"member_id": "nobody"}])
        member.join()
        member.sync()
        member.leave(member_id="nobody", members=[{"member_id": "nobody"}])
        member.leave(group_id="")
        if version >= 3:
            member.leave(members=[])
            member.leave(members=[{"member_id": "nobody"}, {"member_id": member.member_id}])
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
        member = new_member(talk, OFFSET_COMMIT)

        def commit(partition: int = 0, offset: int = 5, metadata: str | None = "", *, naming: Any = naming, **values: Any) -> None:
            part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            base = {"group_id": member.group, "generation_id_or_member_epoch": -1, "retention_time": -1}
            talk.ask(OFFSET_COMMIT, topics=[naming | {"partitions": [part]}], **(base | values))

        commit()
        commit(1, 7, "a note")
        commit(1, 7, None)
        commit(0, 8, "x" * 4096)
        commit(0, 8, "x" * 4097)
        commit(9)
        commit(0, -1)
        commit(naming={"name": talk.name("nowhere"), "topic_id": UNKNOWN_ID})
        commit(group_id="")
        commit(generation_id_or_member_epoch=3, member_id="nobody")
        commit(generation_id_or_member_epoch=-1, member_id="nobody")
        member.join()
        commit()
        commit(generation_id_or_member_epoch=member.generation, member_id=member.member_id)
        member.sync()
        commit()
        commit(generation_id_or_member_epoch=member.generation, member_id=member.member_id)
        commit(generation_id_or_member_epoch=member.generation + 1, member_id=member.member_id)
        commit(generation_id_or_member_epoch=member.generation, member_id="nobody")
        if version >= 7:
            commit(generation_id_or_member_epoch=member.generation, member_id=member.member_id, group_instance_id="gate-1")
        talk.ask(OFFSET_COMMIT, group_id=talk.name("new"), generation_id_or_member_epoch=-1, topics=[])
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
        talk.quietly(OFFSET_COMMIT, 8, **commit)

        def fetch(group: str, topics: Any, **values: Any) -> None:
            talk.ask(OFFSET_FETCH, group_id=group, topics=topics, groups=[{"group_id": group, "topics": topics}], **values)

        fetch(group, [{"name": topic, "topic_id": topic_id, "partition_indexes": [0, 1, 2, 9]}])
        fetch(group, [{"name": talk.name("nowhere"), "topic_id": UNKNOWN_ID, "partition_indexes": [0]}])
        fetch(talk.name("nobody"), [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}])
        fetch("", [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}])
        fetch(group, [])
        if version >= 2:
            fetch(group, None)
            fetch(talk.name("nobody"), None)
        if version >= 7:
            fetch(group, [{"name": topic, "topic_id": topic_id, "partition_indexes": [0]}], require_stable=True)
        if version >= 8:
            topics = [{"name": topic, "topic_id": topic_id, "partition_indexes": [2]}]
            other, second = talk.name("other-group"), talk.name("second-topic")
            second_id = talk.make_topic(second, 2)
            of_second = [{"name": second, "partitions": [{"partition_index": 1, "committed_offset": 11, "committed_metadata": "eleven"}]}]
            talk.quietly(OFFSET_COMMIT, 8, group_id=other, generation_id_or_member_epoch=-1, topics=[*commit["topics"], *of_second])
            both = [*topics, {"name": second, "topic_id": second_id, "partition_indexes": [0, 1]}]
            talk.ask(
                OFFSET_FETCH,
                groups=[
                    {"group_id": group, "topics": topics},
                    {"group_id": other, "topics": both},
                    {"group_id": other, "topics": None},
                    {"group_id": talk.name("nobody"), "topics": topics},
                ],
            )
            talk.ask(OFFSET_FETCH, groups=[])
        if version >= 9:
            talk.ask(OFFSET_FETCH, groups=[{"group_id": group, "topics": topics, "member_id": "nobody", "member_epoch": 3}])

    same_answers(conversation, version)


@pytest.mark.conformance("DescribeGroupsRequestTest.testDescribeGroupsWithOldConsumerGroupProtocol")
@pytest.mark.parametrize("version", range(7))
def test_describe_groups(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, DESCRIBE_GROUPS)
        talk.ask(DESCRIBE_GROUPS, groups=[member.group])
        member.join()
        talk.ask(DESCRIBE_GROUPS, groups=[member.group])
        member.sync()
        talk.ask(DESCRIBE_GROUPS, groups=[member.group, talk.name("nobody"), ""])
        talk.ask(DESCRIBE_GROUPS, groups=[])
        if version >= 3:
            talk.ask(DESCRIBE_GROUPS, groups=[member.group], include_authorized_operations=True)
        member.leave()
        talk.ask(DESCRIBE_GROUPS, groups=[member.group])

    same_answers(conversation, version)


@pytest.mark.conformance("ListGroupsRequestTest.testListGroupsWithOldConsumerGroupProtocolAndNewGroupCoordinator")
@pytest.mark.parametrize("version", range(6))
def test_list_groups(same_answers: Any, version: int) -> None:
    def conversation(talk: Any) -> None:
        member = new_member(talk, LIST_GROUPS)

        def listed(**values: Any) -> None:
            answer = talk.quietly(LIST_GROUPS, version, **values)
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
        member = new_member(talk, DELETE_GROUPS)
        talk.ask(DELETE_GROUPS, groups_names=[member.group])
        member.join()
        member.sync()
        talk.ask(DELETE_GROUPS, groups_names=[member.group, talk.name("nobody"), ""])
        member.leave()
        talk.ask(DELETE_GROUPS, groups_names=[member.group])
        talk.ask(DELETE_GROUPS, groups_names=[member.group])
        talk.ask(DELETE_GROUPS, groups_names=[])

    same_answers(conversation, version)


@pytest.mark.conformance("OffsetDeleteRequestTest.testOffsetDeleteWithOldConsumerGroupProtocolAndNewGroupCoordinator")
def test_offset_delete(same_answers: Any) -> None:
    def conversation(talk: Any) -> None:
        topic = talk.name("topic")
        talk.make_topic(topic, 2)
        member = new_member(talk, OFFSET_DELETE)

        def delete(group: str = member.group, name: str = topic, partition: int = 0) -> None:
            talk.ask(OFFSET_DELETE, group_id=group, topics=[{"name": name, "partitions": [{"partition_index": partition}]}])

        delete()
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        commit = {"group_id": member.group, "topics": [{"name": topic, "partitions": [part]}]}
        talk.quietly(OFFSET_COMMIT, 8, generation_id_or_member_epoch=-1, **commit)
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
        talk.ask(OFFSET_DELETE, group_id=member.group, topics=[])
        delete(talk.name("nobody"))
        asked = [{"name": topic, "partition_indexes": [0]}]
        talk.ask(OFFSET_FETCH, 5, group_id=member.group, topics=asked)

    same_answers(conversation, 0)
