"""CreateAcls, DescribeAcls and DeleteAcls: the cases of Kafka's AclControlManagerTest, and that ACLs live in the metadata log."""

import logging
from typing import Any

import pytest

from ottla.log.file_system import MemoryFiles
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Principal

CONFIG = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:root;User:ANONYMOUS"}
FIELDS = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
TOPIC, CLUSTER, LITERAL, PREFIXED, READ, WRITE, DENY, ALLOW = 2, 4, 3, 4, 3, 4, 2, 3


def entry(**changed: Any) -> dict[str, Any]:
    return dict(zip(FIELDS, (TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW))) | changed


def wanted(**changed: Any) -> dict[str, Any]:
    any_of_all = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None}
    return any_of_all | {"host_filter": None, "operation": 1, "permission_type": 1} | changed


@pytest.fixture
def guarded(make_api) -> Any:
    return make_api(CONFIG)


def create(api: Any, *entries: dict[str, Any], version: int = 3) -> list[tuple[int, str | None]]:
    results = api.ask(ApiKey.CREATE_ACLS, version, creations=list(entries)).results
    return [(each.error_code, each.error_message) for each in results]


def described(api: Any, version: int = 3, **changed: Any) -> list[tuple[Any, ...]]:
    answer = api.ask(ApiKey.DESCRIBE_ACLS, version, **wanted(**changed))
    assert answer.error_code == ErrorCode.NONE
    return [
        (*(each.resource_type, each.resource_name, each.pattern_type), acl.principal, acl.host, acl.operation, acl.permission_type)
        for each in answer.resources
        for acl in each.acls
    ]


def delete(api: Any, *filters: dict[str, Any], version: int = 3) -> list[tuple[int, int]]:
    results = api.ask(ApiKey.DELETE_ACLS, version, filters=list(filters)).filter_results
    return [(each.error_code, len(each.matching_acls)) for each in results]


OK = (ErrorCode.NONE, None)


@pytest.mark.conformance(
    "AuthorizerTest.testAclManagementAPIs",
    "AuthorizerTest.testDeleteAclOnWildcardResource",
    "AuthorizerTest.testDeleteAllAclOnWildcardResource",
    "AuthorizerTest.testDeleteAclOnPrefixedResource",
    "AuthorizerTest.testDeleteAllAclOnPrefixedResource",
    "AuthorizerTest.testAddAclsOnLiteralResource",
    "AuthorizerTest.testAddAclsOnWildcardResource",
    "AuthorizerTest.testAddAclsOnPrefixedResource",
    "AuthorizerTest.testLocalConcurrentModificationOfResourceAcls",
    "AclControlManagerTest.testAddAndDelete",
    "AclControlManagerTest.testCreateAclDeleteAcl",
    "AclControlManagerTest.testDeleteDedupe",
    "AclControlManagerTest.testCreateDedupe",
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_created_described_and_deleted(guarded, version: int) -> None:
    second = entry(resource_name="or", resource_pattern_type=PREFIXED, operation=WRITE)
    assert create(guarded, entry(), second, entry(), version=version) == [OK, OK, OK]
    assert create(guarded, entry(), version=version) == [OK], "one that is there succeeds too"
    assert described(guarded, version) == [tuple(second.values()), tuple(entry().values())]
    assert described(guarded, version, operation=READ) == [tuple(entry().values())]
    twice = wanted(resource_type_filter=TOPIC), wanted(principal_filter="User:alice", operation=READ), wanted(principal_filter="User:x")
    assert delete(guarded, *twice, version=version) == [(0, 2), (0, 1), (0, 0)]
    assert described(guarded, version) == []


INVALID = [
    (entry(resource_type=1), "Invalid resourceType ANY"),
    (entry(resource_pattern_type=1), "Invalid patternType ANY"),
    (entry(resource_pattern_type=2), "Invalid patternType MATCH"),
    (entry(operation=1), "Invalid operation ANY"),
    (entry(permission_type=1), "Invalid permissionType ANY"),
    (entry(resource_name=""), "Invalid empty resource name"),
    (entry(resource_type=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
    (
        entry(principal="alice"),
        "Could not parse principal from `alice` (no colon is present separating the principal type from the principal name)",
    ),
    (entry(principal=""), "Could not parse principal from `` (no colon is present separating the principal type from the principal name)"),
]


@pytest.mark.conformance(
    "AuthorizerTest.testEmptyAclThrowsException",
    "AclControlManagerTest.testValidateNewAcl",
    "AclControlManagerTest.testValidateAclWithBadPrincipal",
    "AclControlManagerTest.testValidateAclWithEmptyPrincipal",
)
def test_invalid_acls_are_refused_and_the_others_created(guarded) -> None:
    results = create(guarded, *(invalid for invalid, _ in INVALID), entry())
    assert results == [*((ErrorCode.INVALID_REQUEST, message) for _, message in INVALID), OK]
    assert len(described(guarded)) == 1


@pytest.mark.conformance("AclControlManagerTest.testValidateFilter")
@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
@pytest.mark.parametrize("number", [0, 99])
def test_a_number_without_a_meaning_closes_the_connection(guarded, field: str, number: int) -> None:
    with pytest.raises(PeerError, match="unknown element"):
        guarded.start(ApiKey.CREATE_ACLS, 3, creations=[entry(**{field: number})])
    filtered = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}.get(field, field)
    with pytest.raises(PeerError, match="unknown element"):
        guarded.start(ApiKey.DESCRIBE_ACLS, 3, **wanted(**{filtered: number}))
    with pytest.raises(PeerError, match="unknown element"):
        guarded.start(ApiKey.DELETE_ACLS, 3, filters=[wanted(**{filtered: number})])


@pytest.mark.conformance("AclControlManagerTest.testDeleteExceedsMaxRecords")
def test_what_a_request_may_not_do(guarded) -> None:
    many = [entry(resource_name=f"t{number}") for number in range(10_001)]
    assert set(create(guarded, *many)) == {(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")}
    assert described(guarded) == []
    assert set(create(guarded, *many[:10_000])) == {OK}
    assert set(create(guarded, many[10_000])) == {OK}
    assert delete(guarded, wanted(), wanted(resource_name_filter="t1")) == [(ErrorCode.INVALID_REQUEST, 0)] * 2
    assert delete(guarded, wanted(resource_name_filter="t1")) == [(ErrorCode.NONE, 1)]
    assert delete(guarded, wanted()) == [(ErrorCode.NONE, 10_000)]


def test_without_an_authorizer_security_is_disabled(api) -> None:
    assert create(api, entry(), entry()) == [(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")] * 2
    answer = api.ask(ApiKey.DESCRIBE_ACLS, 3, **wanted())
    assert (answer.error_code, answer.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    assert delete(api, wanted(), wanted()) == [(ErrorCode.SECURITY_DISABLED, 0)] * 2


def test_who_may_not_describe_and_alter_the_cluster(guarded) -> None:
    create(guarded, entry())
    guarded.session.principal = Principal("User", "alice")
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [code for code, _ in create(guarded, entry(), entry())] == [refused, refused]
    assert guarded.ask(ApiKey.DESCRIBE_ACLS, 3, **wanted()).error_code == refused
    assert delete(guarded, wanted()) == [(refused, 0)]
    guarded.session.principal = Principal("User", "root")
    assert len(described(guarded)) == 1


@pytest.mark.conformance("AclControlManagerTest.testLoadSnapshot")
def test_acls_outlive_the_broker_and_are_in_force_before_it_listens(make_api, make_topic, caplog) -> None:
    files = MemoryFiles()
    first = make_api(CONFIG, files)
    make_topic("orders", of=first)
    create(first, entry(), entry(operation=WRITE, permission_type=DENY), entry(resource_name="gone"))
    delete(first, wanted(resource_name_filter="gone"))
    again = make_api(CONFIG, files)
    assert len(described(again)) == 2
    again.session.principal = Principal("User", "alice")
    answer = again.ask(
        ApiKey.METADATA, 12, topics=[{"topic_id": None, "name": name} for name in ("orders", "gone")], allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )  # fmt: skip
    assert [(each.name, each.error_code) for each in answer.topics] == [("orders", 0), ("gone", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    with caplog.at_level(logging.WARNING):
        make_api(files=files)
    assert "the cluster has 2 ACLs that have no effect" in caplog.text
