"""For every API, exactly the ACLs that Kafka asks for are enough, and each of them is needed (AuthorizerIntegrationTest).

And without DESCRIBE, the bytes of an answer are the same for what exists and for what does not.
"""

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ottla.broker.api_registry import APIS
from ottla.metadata.acls import acl_of
from ottla.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ottla.metadata.topics import GROUP_EVENTS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import OPERATIONS, Operation, Principal, ResourceType

CONFIG = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:root"}
PRESENT, ABSENT = "present", "missing"
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
Fields = Callable[[str], dict[str, Any]]
PRODUCER = {"producer_id": 1, "producer_epoch": 0}
MEMBER = {"member_id": "m", "group_instance_id": None}
CONFIGS: dict[str, Any] = {"configs": []}


class Row(NamedTuple):
    """A request that names a topic, a group or a transactional id `name`; the ACLs of each text of `enough` are enough, and needed."""

    key: ApiKey
    version: int
    enough: tuple[str, ...]
    fields: Fields
    hides: bool = True
    """Whether its names are of topics, groups or transactional ids, whose existence must not show."""


def batch(*, transactional: bool = False) -> bytes:
    return bytes(encode_batch([Record(0, 1, None, b"x")], is_transactional=transactional, producer_id=1, producer_epoch=0, base_sequence=0))


def produce(name: str, transactional_id: str | None = None) -> dict[str, Any]:
    part = {"index": 0, "records": batch(transactional=transactional_id is not None)}
    return {"transactional_id": transactional_id, "acks": -1, "timeout": 1, "topic_data": [{"name": name, "partition_data": [part]}]}


def fetch(name: str) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1, "log_start_offset": -1}
    topics = [{"topic": name, "partitions": [part | {"partition_max_bytes": 1024}]}]
    rest = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1024, "isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": ""}
    return {**rest, "replica_id": -1, "forgotten_topics_data": [], "topics": topics}


def metadata(name: str | None, *, creates: bool = False) -> dict[str, Any]:
    topics = None if name is None else [{"topic_id": None, "name": name}]
    return {"topics": topics, "allow_auto_topic_creation": creates, "include_topic_authorized_operations": True}


def offset_part(**more: Any) -> list[dict[str, Any]]:
    return [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": "", **more}]


def named(name: str, of: str = "partitions", **part: Any) -> list[dict[str, Any]]:
    return [{"name": name, of: [part]}]


def configs(kind: int) -> Fields:
    return lambda name: {"resources": [{"resource_type": kind, "resource_name": name, **CONFIGS}], "validate_only": True}


def describe_configs(kind: int) -> Fields:
    return lambda name: {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": []}],
        "include_synonyms": False,
        "include_documentation": False,
    }


TXN = {"transactional_id": PRESENT, **PRODUCER}
ACL = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:x", "host": "*", "operation": 3,
    "permission_type": 3,
}  # fmt: skip
FILTER = {
    "resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3, "principal_filter": None, "host_filter": None,
    "operation": 1, "permission_type": 1,
}  # fmt: skip
CONFIG_RIGHTS = [(2, "TOPIC present"), (32, "GROUP present"), (4, "CLUSTER kafka-cluster")]
CLUSTER = "CLUSTER kafka-cluster"
HEARTBEAT = {
    "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None, "rebalance_timeout": 1, "subscribed_topic_regex": None,
    "server_assignor": None, "topic_partitions": [],
}  # fmt: skip
ROWS = [
    Row(ApiKey.PRODUCE, 9, ("WRITE TOPIC present",), produce),
    Row(ApiKey.PRODUCE, 9, ("WRITE TOPIC present, WRITE TRANSACTIONAL_ID present",), lambda name: produce(name, PRESENT)),
    Row(ApiKey.FETCH, 12, ("READ TOPIC present",), fetch),
    Row(ApiKey.LIST_OFFSETS, 5, tuple(f"{each} TOPIC present" for each in ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER")), lambda name: {
        "replica_id": -1, "isolation_level": 0, "topics": named(name, partition_index=0, current_leader_epoch=-1, timestamp=-1)}),
    Row(ApiKey.METADATA, 12, ("DESCRIBE TOPIC present",), metadata),
    Row(ApiKey.OFFSET_COMMIT, 8, ("READ GROUP present, READ TOPIC present",), lambda name: {
        "group_id": name, "generation_id_or_member_epoch": -1, **MEMBER, "topics": [{"name": name, "partitions": offset_part()}]}),
    Row(ApiKey.OFFSET_FETCH, 7, ("DESCRIBE GROUP present, DESCRIBE TOPIC present", "READ GROUP present, READ TOPIC present"),
        lambda name: {"group_id": name, "require_stable": False, "topics": [{"name": name, "partition_indexes": [0]}]}),
    Row(ApiKey.FIND_COORDINATOR, 4, ("DESCRIBE GROUP present", "READ GROUP present"),
        lambda name: {"key_type": 0, "coordinator_keys": [name]}),
    Row(ApiKey.FIND_COORDINATOR, 4, ("DESCRIBE TRANSACTIONAL_ID present", "WRITE TRANSACTIONAL_ID present"),
        lambda name: {"key_type": 1, "coordinator_keys": [name]}),
    Row(ApiKey.JOIN_GROUP, 9, ("READ GROUP present",), lambda name: {
        "group_id": name, "session_timeout": 10_000, "rebalance_timeout": 1, **MEMBER, "protocol_type": "consumer", "protocols": [],
        "reason": None}),
    Row(ApiKey.HEARTBEAT, 4, ("READ GROUP present",), lambda name: {"group_id": name, "generation_id": 1, **MEMBER}),
    Row(ApiKey.LEAVE_GROUP, 5, ("READ GROUP present",), lambda name: {"group_id": name, "members": [{**MEMBER, "reason": None}]}),
    Row(ApiKey.SYNC_GROUP, 5, ("READ GROUP present",), lambda name: {
        "group_id": name, "generation_id": 1, **MEMBER, "protocol_type": "consumer", "protocol_name": "range", "assignments": []}),
    Row(ApiKey.DESCRIBE_GROUPS, 5, ("DESCRIBE GROUP present", "DELETE GROUP present"),
        lambda name: {"groups": [name], "include_authorized_operations": True}),
    Row(ApiKey.CREATE_TOPICS, 7, (f"CREATE {CLUSTER}", "CREATE TOPIC present"),
        lambda name: {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
                      "timeout": 1, "validate_only": True}),
    Row(ApiKey.DELETE_TOPICS, 5, (f"DELETE {CLUSTER}", "DELETE TOPIC present"), lambda name: {"topic_names": [name], "timeout": 1}),
    Row(ApiKey.DELETE_RECORDS, 1, ("DELETE TOPIC present",),
        lambda name: {"topics": named(name, partition_index=0, offset=0), "timeout": 1}),
    Row(ApiKey.INIT_PRODUCER_ID, 4, ("WRITE TRANSACTIONAL_ID present",), lambda name: {
        "transactional_id": name, "transaction_timeout": 1, "producer_id": -1, "producer_epoch": -1}),
    Row(ApiKey.INIT_PRODUCER_ID, 4, (f"IDEMPOTENT_WRITE {CLUSTER}", "WRITE TOPIC any", "ALL TOPIC any"), lambda _: {
        "transactional_id": None, "transaction_timeout": 1, "producer_id": -1, "producer_epoch": -1}, False),
    Row(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, ("DESCRIBE TOPIC present", f"CLUSTER_ACTION {CLUSTER}"), lambda name: {
        "replica_id": -1, "topics": [{"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]}),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, 3, ("WRITE TRANSACTIONAL_ID present, WRITE TOPIC present",), lambda name: {
        "v3_and_below_transactional_id": PRESENT, "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": name, "partitions": [0]}]}),
    Row(ApiKey.ADD_PARTITIONS_TO_TXN, 5, (f"CLUSTER_ACTION {CLUSTER}",), lambda name: {
        "transactions": [{**TXN, "verify_only": True, "topics": [{"name": name, "partitions": [0]}]}]}),
    Row(ApiKey.ADD_OFFSETS_TO_TXN, 3, ("WRITE TRANSACTIONAL_ID present, READ GROUP present",), lambda name: {**TXN, "group_id": name}),
    Row(ApiKey.END_TXN, 3, ("WRITE TRANSACTIONAL_ID present",), lambda name: {"transactional_id": name, **PRODUCER, "committed": True}),
    Row(ApiKey.WRITE_TXN_MARKERS, 1, (f"CLUSTER_ACTION {CLUSTER}", f"ALTER {CLUSTER}"), lambda name: {
        "markers": [{**PRODUCER, "transaction_result": True, "coordinator_epoch": 0,
                     "topics": [{"name": name, "partition_indexes": [0]}]}]}),
    Row(ApiKey.TXN_OFFSET_COMMIT, 3, ("WRITE TRANSACTIONAL_ID present, READ GROUP present, READ TOPIC present",), lambda name: {
        **TXN, "group_id": name, "generation_id": -1, **MEMBER, "topics": [{"name": name, "partitions": offset_part()}]}),
    Row(ApiKey.DESCRIBE_ACLS, 3, (f"DESCRIBE {CLUSTER}", f"ALTER {CLUSTER}"), lambda _: FILTER, False),
    Row(ApiKey.CREATE_ACLS, 3, (f"ALTER {CLUSTER}",), lambda _: {"creations": [ACL]}, False),
    Row(ApiKey.DELETE_ACLS, 3, (f"ALTER {CLUSTER}",), lambda _: {"filters": [FILTER]}, False),
    *(Row(ApiKey.DESCRIBE_CONFIGS, 4, (f"DESCRIBE_CONFIGS {of}", f"ALTER_CONFIGS {of}"), describe_configs(kind), kind != 4)
      for kind, of in CONFIG_RIGHTS),
    *(Row(key, 1, (f"ALTER_CONFIGS {of}",), configs(kind), kind != 4) for kind, of in CONFIG_RIGHTS
      for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)),
    Row(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, (f"ALTER {CLUSTER}",),
        lambda name: {"dirs": [{"path": "memory", "topics": [{"name": name, "partitions": [0]}]}]}),
    Row(ApiKey.DESCRIBE_LOG_DIRS, 4, (f"DESCRIBE {CLUSTER}",), lambda name: {"topics": [{"topic": name, "partitions": [0]}]}),
    Row(ApiKey.CREATE_PARTITIONS, 2, ("ALTER TOPIC present",), lambda name: {
        "topics": [{"name": name, "count": 2, "assignments": None}], "timeout": 1, "validate_only": True}),
    Row(ApiKey.DELETE_GROUPS, 2, ("DELETE GROUP present",), lambda name: {"groups_names": [name]}),
    Row(ApiKey.ELECT_LEADERS, 2, (f"ALTER {CLUSTER}",), lambda name: {
        "election_type": 0, "topic_partitions": [{"topic": name, "partitions": [0]}], "timeout": 1}),
    Row(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, (f"ALTER {CLUSTER}",), lambda name: {
        "timeout": 1, "topics": named(name, partition_index=0, replicas=[1])}),
    Row(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, (f"DESCRIBE {CLUSTER}",), lambda name: {
        "timeout": 1, "topics": [{"name": name, "partition_indexes": [0]}]}),
    Row(ApiKey.OFFSET_DELETE, 0, ("DELETE GROUP present, READ TOPIC present",),
        lambda name: {"group_id": name, "topics": named(name, partition_index=0)}),
    Row(ApiKey.DESCRIBE_QUORUM, 1, (f"DESCRIBE {CLUSTER}",), lambda name: {"topics": [{"topic_name": name, "partitions": []}]}),
    Row(ApiKey.UPDATE_FEATURES, 1, (f"ALTER {CLUSTER}",), lambda _: {"timeout": 1, "feature_updates": [], "validate_only": True}, False),
    Row(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, (f"DESCRIBE_CONFIGS {CLUSTER}", f"ALTER_CONFIGS {CLUSTER}"),
        lambda _: {"components": [], "strict": False}, False),
    Row(ApiKey.ALTER_CLIENT_QUOTAS, 1, (f"ALTER_CONFIGS {CLUSTER}",), lambda _: {
        "entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}], "validate_only": True}, False),
    Row(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, (f"DESCRIBE {CLUSTER}", f"ALTER {CLUSTER}"), lambda _: {"users": None}, False),
    Row(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, (f"ALTER {CLUSTER}",), lambda name: {
        "deletions": [{"name": name, "mechanism": 1}], "upsertions": []}),
    Row(ApiKey.DESCRIBE_PRODUCERS, 0, ("READ TOPIC present",), lambda name: {"topics": [{"name": name, "partition_indexes": [0]}]}),
    Row(ApiKey.DESCRIBE_TRANSACTIONS, 0, ("DESCRIBE TRANSACTIONAL_ID present",), lambda name: {"transactional_ids": [name]}),
    Row(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, ("READ GROUP present, DESCRIBE TOPIC present",),
        lambda name: {"group_id": PRESENT, **HEARTBEAT, "subscribed_topic_names": [name]}),
    Row(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ("DESCRIBE GROUP present",),
        lambda name: {"group_ids": [name], "include_authorized_operations": True}),
    Row(ApiKey.LIST_CONFIG_RESOURCES, 1, (f"DESCRIBE_CONFIGS {CLUSTER}",), lambda _: {"resource_types": []}, False),
    Row(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, ("DESCRIBE TOPIC present",),
        lambda name: {"topics": [{"name": name}], "response_partition_limit": 100, "cursor": None}),
]  # fmt: skip
WITHOUT_REFUSAL = {
    *(ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    *(ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS),
}
"""The first four need nothing; lists leave out what may not be seen."""

NOT_OF_PRESENT = {ApiKey.DELETE_TOPICS, ApiKey.DELETE_GROUPS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.CONSUMER_GROUP_DESCRIBE}
"""What is present stays for the other rows, and depends on them."""


def ids(row: Row) -> str:
    return f"{row.key.name.lower()}-{row.enough[0].partition(' ')[2] if isinstance(row.enough, tuple) else ''}"


@pytest.fixture(scope="module")
def module_api() -> Iterator[Any]:
    from tests.unit.broker.conftest import Api

    api = Api(CONFIG)
    api.session.principal = Principal("User", "root")
    topic = {"name": PRESENT, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    api.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000, validate_only=False)
    for key_type in (0, 1):  # creates the topics of the coordinators
        api.ask(ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[PRESENT])
    api.settle()
    commit = next(row for row in ROWS if row.key is ApiKey.OFFSET_COMMIT)
    api.ask(commit.key, commit.version, **commit.fields(PRESENT) | {"member_id": ""})
    yield api
    api.close()


@pytest.fixture
def guarded(module_api) -> Iterator[Any]:
    """A broker with the topic and the group `present`; the client is alice, who has no rights."""
    module_api.session.principal = Principal("User", "alice")
    yield module_api
    grant(module_api, "")


def grant(api: Any, rights: str) -> None:
    """Gives alice these rights, and no other."""
    acls = api.cluster.cluster_metadata.acls
    for entry_id in list(acls._by_id):
        acls.replay(RemoveAccessControlEntryRecord(entry_id=entry_id))
    for number, right in enumerate(filter(None, rights.split(", "))):
        operation, kind, name = right.split()
        acl = acl_of(ResourceType[kind], name, 3, "User:alice", "*", Operation[operation], 3)
        acls.replay(
            AccessControlEntryRecord(
                entry_id=bytes(15) + bytes((number,)), resource_type=acl.resource_type, resource_name=name, pattern_type=3,
                principal=acl.principal, host="*", operation=acl.operation, permission_type=3,
            )
        )  # fmt: skip


def codes(message: Any) -> set[int]:
    """All error codes of an answer, however deep."""
    if isinstance(message, tuple):
        return {code for each in message for code in codes(each)}
    if not dataclasses.is_dataclass(message):
        return set()
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    own = {int(value) for name, value in fields.items() if name in ("error_code", "partition_error_code")}
    return own.union(*(codes(value) for value in fields.values()))


def test_every_api_has_a_row() -> None:
    assert {row.key for row in ROWS} == set(APIS) - WITHOUT_REFUSAL


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_exactly_the_listed_acls_are_enough(guarded, row: Row) -> None:
    for enough in row.enough:
        rights = enough.split(", ")
        for left_out in rights:
            grant(guarded, ", ".join(right for right in rights if right != left_out))
            assert codes(guarded.ask(row.key, row.version, **row.fields(PRESENT))) & REFUSALS, f"{left_out} is needed"
        name = ABSENT if row.key in NOT_OF_PRESENT else PRESENT
        grant(guarded, enough.replace(PRESENT, name))
        assert not codes(guarded.ask(row.key, row.version, **row.fields(name))) & REFUSALS


@pytest.mark.parametrize("row", [row for row in ROWS if row.hides], ids=ids)
def test_without_rights_an_answer_does_not_tell_what_exists(guarded, row: Row) -> None:
    def answer(name: str) -> bytes:
        body = guarded.start(row.key, row.version, **row.fields(name))

        async def wait() -> bytes:
            return await body

        return guarded.runner.run(wait()).replace(ABSENT.encode(), PRESENT.encode())  # type: ignore[no-any-return]

    assert answer(PRESENT) == answer(ABSENT)


def test_authorized_operations_are_those_that_acls_allow(guarded) -> None:
    def operations(**rights: str) -> tuple[int, int, int]:
        grant(guarded, ", ".join(rights.values()))
        answer = guarded.ask(ApiKey.METADATA, 10, **metadata(PRESENT), include_cluster_authorized_operations=True)
        cluster = guarded.ask(
            ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1
        ).cluster_authorized_operations
        assert answer.cluster_authorized_operations == cluster
        (group,) = guarded.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[PRESENT], include_authorized_operations=True).groups
        return answer.topics[0].topic_authorized_operations, group.authorized_operations, cluster

    unknown = -(2**31)
    assert operations() == (unknown, unknown, 0)
    assert operations(topic="READ TOPIC present") == (1 << Operation.READ | 1 << Operation.DESCRIBE, unknown, 0)
    assert operations(topic="ALL TOPIC present", group="ALL GROUP present", cluster=f"ALL {CLUSTER}") == tuple(
        OPERATIONS[kind] for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    )
    assert operations(cluster=f"CREATE {CLUSTER}") == (unknown, unknown, 0), "who may not describe the cluster learns nothing"
    grant(guarded, "DESCRIBE GROUP present")
    (group,) = guarded.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[PRESENT], include_authorized_operations=True).groups
    assert group.authorized_operations == 1 << Operation.DESCRIBE


def test_operations_on_a_topic_that_does_not_exist_are_shown_to_those_who_may_describe_it(guarded) -> None:
    grant(guarded, "READ TOPIC nowhere")
    (topic,) = guarded.ask(ApiKey.METADATA, 12, **metadata("nowhere")).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_a_topic_is_created_without_showing_its_settings(guarded) -> None:
    create = next(row for row in ROWS if row.key is ApiKey.CREATE_TOPICS)
    grant(guarded, f"CREATE TOPIC {ABSENT}")
    (made,) = guarded.ask(create.key, create.version, **create.fields(ABSENT)).topics
    assert (made.error_code, made.topic_config_error_code) == (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (made.num_partitions, made.replication_factor, made.configs) == (-1, -1, None)
    grant(guarded, f"CREATE TOPIC {ABSENT}, DESCRIBE_CONFIGS TOPIC {ABSENT}")
    (made,) = guarded.ask(create.key, create.version, **create.fields(ABSENT)).topics
    assert (made.topic_config_error_code, made.num_partitions, made.replication_factor) == (0, 1, 1)
    assert made.configs


def test_the_topic_of_group_events_is_for_those_who_may_read_it(guarded) -> None:
    assert codes(guarded.ask(ApiKey.FETCH, 12, **fetch(GROUP_EVENTS))) & REFUSALS
    grant(guarded, f"READ TOPIC {GROUP_EVENTS}")
    assert not codes(guarded.ask(ApiKey.FETCH, 12, **fetch(GROUP_EVENTS))) & REFUSALS


def test_a_topic_is_found_by_its_id_only_by_those_who_may_describe_it(guarded) -> None:
    topic_id = uuid.UUID(bytes=guarded.cluster.cluster_metadata.topics[PRESENT].topic_id)
    asked = metadata(None) | {"topics": [{"topic_id": topic_id, "name": None}]}
    (topic,) = guarded.ask(ApiKey.METADATA, 12, **asked).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    grant(guarded, "DESCRIBE TOPIC present")
    (topic,) = guarded.ask(ApiKey.METADATA, 12, **asked).topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, PRESENT)


def test_the_metrics_are_for_addresses_whose_anonymous_clients_may_describe_the_cluster(guarded) -> None:
    allows = guarded.cluster.metrics_access()
    assert not allows("127.0.0.1")
    acls = guarded.cluster.cluster_metadata.acls
    acls.replay(
        AccessControlEntryRecord(
            entry_id=bytes(16), resource_type=4, resource_name="kafka-cluster", pattern_type=3, principal="User:ANONYMOUS",
            host="0:0:0:0:0:0:0:1", operation=8, permission_type=3,
        )
    )  # fmt: skip
    assert (allows("::1"), allows("127.0.0.1")) == (True, False)
