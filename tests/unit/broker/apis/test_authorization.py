"""Every API declares its rights, and a client that lacks one gets Kafka's error where Kafka has it; what it may do goes on."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.api_registry import APIS
from ottla.broker.network.request import Session
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import ANONYMOUS, CLUSTER_NAME, OPERATIONS, Operation, Resource, ResourceType

TOPIC, GROUP, CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NONE = ErrorCode.NONE


class Refusing:
    """Allows everything until `refuse` is called; then it refuses these operations on these names, whatever their type."""

    def __init__(self) -> None:
        self.refused: set[tuple[Operation, str]] = set()
        self.asked: list[tuple[Session, Operation, Resource]] = []

    def refuse(self, *rights: tuple[Operation, str]) -> None:
        self.refused = set(rights)

    def authorize(self, session: Session, operation: Operation, kind: ResourceType, name: str, log_if_denied: bool = True) -> bool:
        self.asked.append((session, operation, Resource(kind, name)))
        return (operation, name) not in self.refused

    def authorize_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        return False

    def authorized_operations(self, session: Session, resource: Resource) -> int:
        return OPERATIONS[resource.type]


@pytest.fixture
def authorizer() -> Refusing:
    return Refusing()


@pytest.fixture
def guarded(make_api, make_topic, authorizer: Refusing) -> Any:
    """A broker whose authorizer refuses what a test says, with the topics `open` and `closed`."""
    api = make_api(authorizer=authorizer)
    for name in ("open", "closed"):
        make_topic(name, of=api)
    return api


NO_RIGHTS = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER}
"""ApiVersions is answered before authentication; DescribeCluster hides rights only."""


@pytest.mark.parametrize("key", APIS, ids=lambda key: ApiKey(key).name.lower())
def test_every_api_declares_its_rights(key: int) -> None:
    assert bool(APIS[key].access) == (key not in NO_RIGHTS)
    for access in APIS[key].access:
        kinds = OPERATIONS.get(access.resource)
        assert kinds is None or kinds & 1 << access.operation, f"{access.operation.name} is no operation of a {access.resource.name}"
        if access.refuse is not None:
            assert bool(access.answers) == ("[]" in access.at), "items that are refused have a place in the response"


def partitions(name: str, field: str = "name", of: str = "partitions", **values: Any) -> dict[str, Any]:
    return {field: name, of: [values]}


def both(make: Callable[[str], Any]) -> list[Any]:
    return [make("closed"), make("open")]


def offsets(index: str = "partition_index") -> Callable[[Any], dict[Any, int]]:
    def read(answer: Any) -> dict[Any, int]:
        topics = getattr(answer, "topics", None) or getattr(answer, "responses", ())
        return {
            getattr(topic, "name", None) or topic.topic: (getattr(topic, "partitions", None) or topic.partition_responses)[0].error_code
            for topic in topics
        }

    return read


def by(array: str, name: str = "name") -> Callable[[Any], dict[Any, int]]:
    return lambda answer: {getattr(item, name): item.error_code for item in getattr(answer, array)}


COMMIT = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
EACH_TOPIC = {"closed": TOPIC, "open": NONE}
REQUESTS: dict[str, tuple[Operation, ApiKey, int, dict[str, Any], Callable[[Any], Any], Any]] = {
    "fetch": (
        Operation.READ, ApiKey.FETCH, 12,
        {
            "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0, "session_id": 0, "session_epoch": -1, "rack_id": "",
            "replica_id": -1, "forgotten_topics_data": [], "topics": both(lambda name: partitions(
                name, "topic", partition=0, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=-1,
                partition_max_bytes=1 << 20)),
        },
        lambda answer: {topic.topic: topic.partitions[0].error_code for topic in answer.responses}, EACH_TOPIC,
    ),
    "list_offsets": (
        Operation.DESCRIBE, ApiKey.LIST_OFFSETS, 5,
        {"replica_id": -1, "isolation_level": 0, "topics": both(lambda name: partitions(
            name, partition_index=0, current_leader_epoch=-1, timestamp=-1))},
        offsets(), EACH_TOPIC,
    ),
    "metadata": (
        Operation.DESCRIBE, ApiKey.METADATA, 12,
        {"topics": both(lambda name: {"topic_id": None, "name": name}), "allow_auto_topic_creation": True,
         "include_topic_authorized_operations": False},
        by("topics"), EACH_TOPIC,
    ),
    "all_metadata": (
        Operation.DESCRIBE, ApiKey.METADATA, 12,
        {"topics": None, "allow_auto_topic_creation": True, "include_topic_authorized_operations": False}, by("topics"), {"open": NONE},
    ),
    "offset_commit": (
        Operation.READ, ApiKey.OFFSET_COMMIT, 8,
        {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
         "topics": both(lambda name: partitions(name, partition_index=0, **COMMIT))},
        offsets(), EACH_TOPIC,
    ),
    "offset_fetch": (
        Operation.DESCRIBE, ApiKey.OFFSET_FETCH, 7,
        {"group_id": "g", "require_stable": False, "topics": both(lambda name: {"name": name, "partition_indexes": [0]})},
        offsets(), EACH_TOPIC,
    ),
    "create_partitions": (
        Operation.ALTER, ApiKey.CREATE_PARTITIONS, 2,
        {"topics": both(lambda name: {"name": name, "count": 2, "assignments": None}), "timeout": 1000, "validate_only": True},
        by("results"), EACH_TOPIC,
    ),
    "delete_records": (
        Operation.DELETE, ApiKey.DELETE_RECORDS, 1, {"topics": both(lambda name: partitions(name, partition_index=0, offset=0)),
        "timeout": 1000}, offsets(), EACH_TOPIC,
    ),
    "offset_for_leader_epoch": (
        Operation.DESCRIBE, ApiKey.OFFSET_FOR_LEADER_EPOCH, 3,
        {"replica_id": -1, "topics": both(lambda name: partitions(name, "topic", partition=0, current_leader_epoch=-1, leader_epoch=0))},
        offsets(), EACH_TOPIC,
    ),
    "describe_topic_partitions": (
        Operation.DESCRIBE, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0,
        {"topics": both(lambda name: {"name": name}), "response_partition_limit": 100, "cursor": None}, by("topics"), EACH_TOPIC,
    ),
    "offset_delete": (
        Operation.READ, ApiKey.OFFSET_DELETE, 0,
        {"group_id": "committed", "topics": both(lambda name: partitions(name, partition_index=0))}, offsets(), EACH_TOPIC,
    ),
    "describe_configs": (
        Operation.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_CONFIGS, 4,
        {"resources": both(lambda name: {"resource_type": 2, "resource_name": name, "configuration_keys": None}),
         "include_synonyms": False, "include_documentation": False},
        by("results", "resource_name"), EACH_TOPIC,
    ),
    "alter_configs": (
        Operation.ALTER_CONFIGS, ApiKey.ALTER_CONFIGS, 1,
        {"resources": both(lambda name: {"resource_type": 2, "resource_name": name, "configs": []}), "validate_only": True},
        by("responses", "resource_name"), EACH_TOPIC,
    ),
    "incremental_alter_configs": (
        Operation.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1,
        {"resources": both(lambda name: {"resource_type": 2, "resource_name": name, "configs": []}), "validate_only": True},
        by("responses", "resource_name"), EACH_TOPIC,
    ),
    "describe_groups": (
        Operation.DESCRIBE, ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["closed", "open"], "include_authorized_operations": False},
        by("groups", "group_id"), {"closed": GROUP, "open": NONE},
    ),
    "delete_groups": (
        Operation.DELETE, ApiKey.DELETE_GROUPS, 2, {"groups_names": ["closed", "open"]},
        by("results", "group_id"), {"closed": GROUP, "open": ErrorCode.GROUP_ID_NOT_FOUND},
    ),
    "find_coordinator": (
        Operation.DESCRIBE, ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["closed", "open"]},
        by("coordinators", "key"), {"closed": GROUP, "open": NONE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_of_several_resources_only_those_are_refused_that_the_client_may_not_use(guarded, commit, authorizer: Refusing, name: str) -> None:
    operation, key, version, fields, read, expected = REQUESTS[name]
    commit("committed", "open", 1, of=guarded)
    authorizer.refuse((operation, "closed"), *((other, CLUSTER_NAME) for other in Operation))
    answer = read(guarded.ask(key, version, **fields))
    assert {name: code for name, code in answer.items() if name != "__consumer_offsets"} == expected
    authorizer.refuse()
    assert {TOPIC, GROUP}.isdisjoint(read(guarded.ask(key, version, **fields)).values())


def test_records_are_appended_to_topics_that_may_be_written(guarded, batch, authorizer: Refusing) -> None:
    data = [{"name": name, "partition_data": [{"index": 0, "records": batch(b"x")}]} for name in ("closed", "open")]
    authorizer.refuse((Operation.WRITE, "closed"))
    answer = guarded.ask(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
    assert offsets()(answer) == EACH_TOPIC
    assert [guarded.opened(name, 0).log.log_end_offset for name in ("closed", "open")] == [0, 1]


@pytest.mark.parametrize("version", [13, 12])
def test_an_id_that_no_topic_has_is_unknown_rather_than_refused(guarded, authorizer: Refusing, version: int) -> None:
    authorizer.refuse((Operation.READ, "closed"), (Operation.DESCRIBE, "closed"), (Operation.WRITE, "closed"))
    closed = uuid.UUID(bytes=guarded.cluster.cluster_metadata.topics["closed"].topic_id)
    topics = [{"name": None, "topic_id": topic_id} for topic_id in (closed, uuid.UUID(int=1))]
    answer = guarded.ask(
        ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(None, TOPIC), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


GROUP_REQUESTS = [
    (ApiKey.HEARTBEAT, 4, {"generation_id": 1, "member_id": "m", "group_instance_id": None}, Operation.READ),
    (ApiKey.SYNC_GROUP, 5, {"generation_id": 1, "member_id": "m", "group_instance_id": None, "protocol_type": "consumer",
                            "protocol_name": "range", "assignments": []}, Operation.READ),
    (ApiKey.JOIN_GROUP, 9, {"session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": "", "group_instance_id": None,
                            "protocol_type": "consumer", "protocols": [], "reason": None}, Operation.READ),
    (ApiKey.LEAVE_GROUP, 5, {"members": []}, Operation.READ),
    (ApiKey.OFFSET_DELETE, 0, {"topics": []}, Operation.DELETE),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, {
        "member_id": "m", "member_epoch": 0, "instance_id": None, "rack_id": None, "rebalance_timeout": 1, "subscribed_topic_names": None,
        "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": None}, Operation.READ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "version", "fields", "operation"), GROUP_REQUESTS, ids=lambda value: getattr(value, "name", ""))
def test_a_group_that_the_client_may_not_use(guarded, authorizer: Refusing, key: ApiKey, version: int, fields, operation) -> None:
    authorizer.refuse((operation, "g"))
    assert guarded.ask(key, version, group_id="g", **fields).error_code == GROUP
    authorizer.refuse()
    assert guarded.ask(key, version, group_id="g", **fields).error_code != GROUP


@pytest.mark.parametrize("operation", [Operation.READ, Operation.DESCRIBE])
def test_offsets_of_a_group_that_the_client_may_not_use(guarded, commit, authorizer: Refusing, operation: Operation) -> None:
    authorizer.refuse((operation, "g"))
    if operation is Operation.READ:
        assert commit("g", "open", 1, of=guarded) == GROUP
        return
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None} for group in ("g", "other")]
    answer = guarded.ask(ApiKey.OFFSET_FETCH, 9, groups=groups, require_stable=False)
    assert by("groups", "group_id")(answer) == {"g": GROUP, "other": NONE}
    one = [{"name": "open", "partition_indexes": [0]}]
    assert guarded.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", require_stable=False, topics=one).error_code == GROUP
    assert offsets()(guarded.ask(ApiKey.OFFSET_FETCH, 1, group_id="g", topics=one)) == {"open": GROUP}


def test_all_offsets_of_a_group_are_those_of_topics_that_may_be_described(guarded, commit, authorizer: Refusing) -> None:
    for topic in ("open", "closed"):
        commit("g", topic, 1, of=guarded)
    authorizer.refuse((Operation.DESCRIBE, "closed"))
    answer = guarded.ask(ApiKey.OFFSET_FETCH, 7, group_id="g", require_stable=False, topics=None)
    assert offsets()(answer) == {"open": NONE}


def test_groups_that_are_listed(guarded, commit, authorizer: Refusing) -> None:
    for group in ("g", "h"):
        commit(group, "open", 1, of=guarded)

    def listed() -> list[str]:
        return sorted(group.group_id for group in guarded.ask(ApiKey.LIST_GROUPS, 4, states_filter=[]).groups)

    authorizer.refuse((Operation.DESCRIBE, "g"))
    assert listed() == ["g", "h"], "who may describe the cluster sees all groups"
    authorizer.refuse((Operation.DESCRIBE, "g"), (Operation.DESCRIBE, CLUSTER_NAME))
    assert listed() == ["h"]


CLUSTER_REQUESTS = [
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, {"timeout": 1, "topics": []}, Operation.ALTER),
    (ApiKey.ELECT_LEADERS, 2, {"election_type": 0, "topic_partitions": None, "timeout": 1}, Operation.ALTER),
    (ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}, Operation.DESCRIBE),
    (ApiKey.DESCRIBE_QUORUM, 1, {"topics": []}, Operation.DESCRIBE),
    (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, {"timeout": 1, "topics": None}, Operation.DESCRIBE),
    (ApiKey.LIST_CONFIG_RESOURCES, 1, {"resource_types": []}, Operation.DESCRIBE_CONFIGS),
    (ApiKey.INIT_PRODUCER_ID, 4, {"transactional_id": None, "transaction_timeout": 1, "producer_id": -1, "producer_epoch": -1},
     Operation.IDEMPOTENT_WRITE),
]  # fmt: skip


@pytest.mark.parametrize(("key", "version", "fields", "operation"), CLUSTER_REQUESTS, ids=lambda value: getattr(value, "name", ""))
def test_what_the_client_may_not_do_with_the_cluster(guarded, authorizer: Refusing, key: ApiKey, version: int, fields, operation) -> None:
    authorizer.refuse((operation, CLUSTER_NAME))
    assert guarded.ask(key, version, **fields).error_code == CLUSTER
    authorizer.refuse()
    assert guarded.ask(key, version, **fields).error_code == NONE


def test_replicas_that_may_not_be_moved(guarded, authorizer: Refusing) -> None:
    dirs = [{"path": "memory", "topics": [{"name": "open", "partitions": [0]}]}]
    authorizer.refuse((Operation.ALTER, CLUSTER_NAME))
    (topic,) = guarded.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs).results
    assert (topic.topic_name, topic.partitions[0].error_code) == ("open", CLUSTER)


def test_settings_of_a_broker_belong_to_the_cluster(guarded, authorizer: Refusing) -> None:
    authorizer.refuse((Operation.ALTER_CONFIGS, CLUSTER_NAME))
    resources = [{"resource_type": kind, "resource_name": name, "configs": []} for kind, name in ((4, "1"), (2, "open"))]
    answer = guarded.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=True)
    assert by("responses", "resource_name")(answer) == {"1": CLUSTER, "open": NONE}


def test_a_transactional_id_is_refused_before_anything_else(guarded, authorizer: Refusing) -> None:
    authorizer.refuse((Operation.WRITE, "t"))
    fields = {"transaction_timeout": 1, "producer_id": -1, "producer_epoch": -1}
    assert guarded.ask(ApiKey.INIT_PRODUCER_ID, 4, transactional_id="t", **fields).error_code == TRANSACTIONAL_ID


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        ({(Operation.CREATE, "new"), (Operation.CREATE, CLUSTER_NAME)}, TOPIC),
        ({(Operation.CREATE, "new")}, NONE),
        ({(Operation.CREATE, CLUSTER_NAME)}, NONE),
    ],
)
@pytest.mark.parametrize("is_auto", [True, False])
def test_topics_are_created_with_the_right_on_the_topic_or_the_cluster(guarded, authorizer: Refusing, refused, code, is_auto) -> None:
    authorizer.refuse(*refused)
    if is_auto:
        topics = [{"topic_id": None, "name": "new"}]
        fields = {"allow_auto_topic_creation": True, "include_topic_authorized_operations": False}
        guarded.ask(ApiKey.METADATA, 12, topics=topics, **fields)  # creates it, and has it in the next answer
        answer = guarded.ask(ApiKey.METADATA, 12, topics=topics, **fields)
    else:
        topics = [{"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}]
        answer = guarded.ask(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=1000, validate_only=False)
    assert by("topics")(answer) == {"new": code}
    assert ("new" in guarded.cluster.cluster_metadata.topics) == (code == NONE)


@pytest.mark.parametrize(
    ("refused", "codes"),
    [
        ({Operation.DELETE, Operation.DESCRIBE}, [TOPIC, TOPIC]),
        ({Operation.DELETE}, [TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
    ],
)
def test_a_deletion_tells_whether_a_topic_exists_only_to_those_who_may_describe_it(guarded, authorizer: Refusing, refused, codes) -> None:
    authorizer.refuse((Operation.DELETE, CLUSTER_NAME), *((operation, name) for operation in refused for name in ("closed", "absent")))
    answer = guarded.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["closed", "absent"], timeout=1000)
    assert [result.error_code for result in answer.responses] == codes
    topics = [{"name": None, "topic_id": uuid.UUID(bytes=guarded.cluster.cluster_metadata.topics["closed"].topic_id)}]
    (result,) = guarded.ask(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000).responses
    assert (result.name, result.error_code) == (None if Operation.DESCRIBE in refused else "closed", TOPIC)
    assert "closed" in guarded.cluster.cluster_metadata.topics


def test_the_authorizer_learns_who_asks(guarded, authorizer: Refusing) -> None:
    fields = {"client_software_name": "kafka-python", "client_software_version": "2.0"}
    guarded.ask(ApiKey.API_VERSIONS, 3, **fields)
    authorizer.asked.clear()
    guarded.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    ((session, operation, resource),) = authorizer.asked
    assert (operation, resource) == (Operation.DESCRIBE, Resource(ResourceType.CLUSTER, CLUSTER_NAME))
    assert (session.principal, str(session.principal), session.listener) == (ANONYMOUS, "User:ANONYMOUS", "PLAINTEXT")
    assert (session.client_host, session.software_name, session.software_version) == ("/127.0.0.1", "kafka-python", "2.0")
