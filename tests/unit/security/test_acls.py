"""What ACLs decide: the cases of Kafka's AuthorizerTest and StandardAuthorizerTest, and any ACLs against a plain reading of the rules."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.access import Operation, ResourceType
from ottla.security.acls import (
    Acl,
    AclFilter,
    AclIndex,
    Decision,
    PatternType,
    PermissionType,
    StandardAuthorizer,
)

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
HOST = "10.0.0.1"


def acl(text: str, kind: ResourceType = TOPIC) -> Acl:
    """`allow alice read orders`; a name that ends with ">" is a prefix, `alice@10.0.0.1` has a host."""
    permission, who, operation, name = text.split()
    user, _, host = who.partition("@")
    pattern = PREFIXED if name.endswith(">") else LITERAL
    return Acl(
        kind, name.rstrip(">"), pattern, f"User:{user}", host or "*", Operation[operation.upper()], PermissionType[permission.upper()]
    )


def authorizer(*acls: str, allow_if_no_acl_found: bool = False, kind: ResourceType = TOPIC) -> StandardAuthorizer:
    index = AclIndex(acl(text, kind) for text in acls)
    return StandardAuthorizer(index, ["User:root", "User:a,b:c"], allow_if_no_acl_found=allow_if_no_acl_found)


SCENARIOS = [
    # ACLs; what is asked; whether it is allowed
    ("", "alice read orders", False),
    ("allow alice read orders", "alice read orders", True),
    ("allow alice read orders", "bob read orders", False),
    ("allow alice read orders", "alice write orders", False),
    ("allow alice read orders", "alice read order", False),
    ("allow alice read orders", "alice read Orders", False),
    # The wildcard, and prefixes.
    ("allow alice read *", "alice read anything", True),
    ("allow alice read or>", "alice read orders", True),
    ("allow alice read or>", "alice read or", True),
    ("allow alice read or>", "alice read o", False),
    ("allow alice read o>", "alice read orders", True),
    ("allow alice read *>", "alice read orders", False),
    ("allow alice read _>", "alice read _", True),
    ("allow alice read _>", "alice read a_", False),
    ("allow alice read o", "alice read orders", False),
    ("deny alice read order-a>; deny alice read p>; deny alice read ordinary; allow alice read ord>", "alice read orders", True),
    ("allow alice read *>", "alice read *s", True),
    # Everybody, hosts.
    ("allow * read orders", "alice read orders", True),
    ("allow alice@10.0.0.1 read orders", "alice read orders", True),
    ("allow alice@10.0.0.2 read orders", "alice read orders", False),
    ("deny alice@10.0.0.2 read orders; allow alice read orders", "alice read orders", True),
    # A DENY wins, however specific the ALLOWs are.
    ("allow alice read orders; deny alice read orders", "alice read orders", False),
    ("allow alice read orders; deny * read *", "alice read orders", False),
    ("allow alice read orders; deny alice all o>", "alice read orders", False),
    ("allow * all *; deny alice read or>", "alice read orders", False),
    ("allow * all *; deny alice read or>", "alice read payments", True),
    ("allow * all *; deny alice read or>", "bob read orders", True),
    # ALL, and operations that others imply; a DENY implies nothing.
    ("allow alice all orders", "alice alter_configs orders", True),
    ("deny alice all orders; allow alice read orders", "alice describe orders", False),
    ("allow alice read orders", "alice describe orders", True),
    ("allow alice write orders", "alice describe orders", True),
    ("allow alice delete orders", "alice describe orders", True),
    ("allow alice alter orders", "alice describe orders", True),
    ("allow alice create orders", "alice describe orders", False),
    ("allow alice alter_configs orders", "alice describe_configs orders", True),
    ("allow alice alter_configs orders", "alice describe orders", False),
    ("allow alice describe orders", "alice read orders", False),
    ("deny alice read orders; allow alice describe orders", "alice describe orders", True),
    ("deny alice read orders; allow alice write orders", "alice describe orders", True),
    # Super users.
    ("deny root all *; deny * all *", "root read orders", True),
    ("deny * all *", "a,b:c read orders", True),
]


@pytest.mark.conformance(
    "AuthorizerTest.testTopicAcl",
    "AuthorizerTest.testDenyTakesPrecedence",
    "AuthorizerTest.testAllowAllAccess",
    "AuthorizerTest.testSuperUserHasAccess",
    "AuthorizerTest.testWildCardAcls",
    "AuthorizerTest.testNoAclFound",
    "AuthorizerTest.testAclInheritance",
    "AuthorizerTest.testAccessAllowedIfAllowAclExistsOnWildcardResource",
    "AuthorizerTest.testAccessAllowedIfAllowAclExistsOnPrefixedResource",
    "AuthorizerTest.testAuthorizeWithPrefixedResource",
    "AuthorizerTest.testSingleCharacterResourceAcls",
)
@pytest.mark.parametrize(("acls", "asked", "is_allowed"), SCENARIOS, ids=lambda value: str(value))
def test_decisions(acls: str, asked: str, is_allowed: bool) -> None:
    made = authorizer(*filter(None, acls.split("; ")))
    user, operation, name = asked.split()
    for _ in ("decided", "remembered"):
        assert made.decide(f"User:{user}", HOST, Operation[operation.upper()], TOPIC, name).is_allowed is is_allowed
    assert not made.decide(f"User:{user}", HOST, Operation[operation.upper()], GROUP, name).is_allowed or user in ("root", "a,b:c")


def test_the_rule_that_decides_is_named() -> None:
    made = authorizer("deny bob read green>", "allow alice read *")
    assert str(made.decide("User:bob", HOST, READ, TOPIC, "green1")) == (
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=green, patternType=PREFIXED, principal=User:bob, host=*,"
        " operation=READ, permissionType=DENY))"
    )
    assert str(made.decide("User:root", HOST, READ, TOPIC, "green1")) == "SuperUser"
    assert str(made.decide("User:carol", HOST, READ, TOPIC, "green1")) == "DefaultDeny"


@pytest.mark.conformance("AuthorizerTest.testNoAclFoundOverride")
def test_what_is_allowed_where_no_acl_is_about_a_resource() -> None:
    index = AclIndex([acl("allow alice read orders")])
    made = StandardAuthorizer(index, allow_if_no_acl_found=True)
    assert str(made.decide("User:bob", HOST, READ, TOPIC, "payments")) == "DefaultAllow"
    assert not made.decide("User:bob", HOST, READ, TOPIC, "orders").is_allowed, "that ACL is about another user, but about this topic"
    index.add(acl("allow carol write pay>"))
    assert not made.decide("User:bob", HOST, READ, TOPIC, "payments").is_allowed
    index.remove(acl("allow carol write pay>"))
    assert made.decide("User:bob", HOST, READ, TOPIC, "payments").is_allowed


@pytest.mark.conformance("AuthorizerTest.testAuthorizeWithEmptyResourceName")
def test_a_resource_without_a_name_is_one_of_all() -> None:
    assert not authorizer("allow alice read o>").decide("User:alice", HOST, READ, TOPIC, "").is_allowed
    assert authorizer("allow alice read *").decide("User:alice", HOST, READ, TOPIC, "").is_allowed


@pytest.mark.conformance("BaseAuthorizerTest.testAuthorizeByResourceTypeMultipleAddAndRemove")
def test_a_right_to_any_resource_changes_with_the_acls() -> None:
    index = AclIndex()
    made = StandardAuthorizer(index)
    for _ in range(2):
        for change, is_allowed in ((index.add, True), (index.remove, False)):
            change(acl("allow alice write orders"))
            assert made.decide_for_any("User:alice", HOST, WRITE, TOPIC).is_allowed is is_allowed


def test_decisions_change_with_the_acls() -> None:
    index = AclIndex()
    made = StandardAuthorizer(index)
    for text in ("allow alice read or>", "allow alice read orders", "allow alice read *"):
        assert not made.decide("User:alice", HOST, READ, TOPIC, "orders").is_allowed
        index.add(acl(text))
        assert made.decide("User:alice", HOST, READ, TOPIC, "orders").is_allowed
        index.remove(acl(text))
    assert len(index) == 0


BY_TYPE = [
    ("", False),
    ("allow alice write orders", True),
    ("allow alice read orders", False),
    ("allow alice@10.0.0.2 write orders", False),
    ("allow bob write orders", False),
    ("allow * write orders", True),
    ("allow alice all orders", True),
    ("allow alice write orders; deny alice write orders", False),
    ("allow alice write orders; deny alice write payments", True),
    ("allow alice write orders; deny alice write or>", False),
    ("allow alice write or>; deny alice write orders", True),
    ("allow alice write or>; deny alice write o>", False),
    ("allow alice write or>; deny alice write or>", False),
    ("allow alice write or>; deny alice all *", False),
    ("allow alice write or>; deny * write *", False),
    ("allow alice write or>; deny bob write *", True),
    ("allow alice write *; deny alice write orders", True),
    ("allow alice write *; deny alice write or>", True),
    ("allow alice write *; deny alice write *", False),
    ("allow alice write *; deny alice write hardcode", True),
    ("allow alice write orders; allow alice write payments; deny alice write o>", True),
]


@pytest.mark.conformance(
    "BaseAuthorizerTest.testAuthorizeByResourceTypeIsolationUnrelatedDenyWontDominateAllow",
    "BaseAuthorizerTest.testAuthorizeByResourceTypeDenyTakesPrecedence",
    "BaseAuthorizerTest.testAuthorizeByResourceTypePrefixedResourceDenyDominate",
    "BaseAuthorizerTest.testAuthorizeByResourceTypeWildcardResourceDenyDominate",
    "BaseAuthorizerTest.testAuthorizeByResourceTypeWithAllOperationAce",
    "BaseAuthorizerTest.testAuthorizeByResourceTypeWithAllHostAce",
    "BaseAuthorizerTest.testAuthorizeByResourceTypeWithAllPrincipalAce",
    "BaseAuthorizerTest.testAuthorzeByResourceTypeSuperUserHasAccess",
    "AuthorizerTest.testAuthorizeByResourceTypeNoAclFoundOverride",
)
@pytest.mark.parametrize(("acls", "is_allowed"), BY_TYPE)
def test_whether_anything_of_a_type_may_be_written(acls: str, is_allowed: bool) -> None:
    made = authorizer(*filter(None, acls.split("; ")))
    for _ in ("decided", "remembered"):
        assert made.decide_for_any("User:alice", HOST, WRITE, TOPIC).is_allowed is is_allowed
    assert not made.decide_for_any("User:alice", HOST, WRITE, GROUP).is_allowed
    assert made.decide_for_any("User:root", HOST, WRITE, TOPIC).is_allowed
    assert authorizer(allow_if_no_acl_found=True).decide_for_any("User:alice", HOST, WRITE, TOPIC).is_allowed


@pytest.mark.parametrize(
    ("kind", "acls", "expected"),
    [
        (TOPIC, "allow alice all x", 3576),
        (GROUP, "allow alice all x", 3400),
        (CLUSTER, "allow alice all x", 8096),
        (TOPIC, "allow alice read x", 1 << READ | 1 << DESCRIBE),
        (TOPIC, "allow alice all x; deny alice write x", 3576 - (1 << WRITE)),
        (TOPIC, "", 0),
    ],
)
def test_authorized_operations(kind: ResourceType, acls: str, expected: int) -> None:
    made = authorizer(*filter(None, acls.split("; ")), kind=kind)
    assert made.authorized_operations("User:alice", HOST, kind, "x") == expected


FILTERED = [acl(text) for text in ("allow a read foo", "allow a read fo>", "allow a read *", "allow b write foo", "allow a read bar")]
FILTERED.append(acl("allow a read foo", GROUP))


@pytest.mark.conformance("AuthorizerTest.testGetAclsPrincipal", "AuthorizerTest.testAclsFilter")
@pytest.mark.parametrize(
    ("matching", "found"),
    [
        (AclFilter(), {0, 1, 2, 3, 4, 5}),
        (AclFilter(resource_type=TOPIC), {0, 1, 2, 3, 4}),
        (AclFilter(TOPIC, "foo"), {0, 3}),
        (AclFilter(TOPIC, "fo"), {1}),
        (AclFilter(TOPIC, "foo", LITERAL), {0, 3}),
        (AclFilter(TOPIC, "foo", PREFIXED), set()),
        (AclFilter(TOPIC, "fo", PREFIXED), {1}),
        (AclFilter(TOPIC, None, PREFIXED), {1}),
        (AclFilter(TOPIC, "foo", PatternType.MATCH), {0, 1, 2, 3}),
        (AclFilter(TOPIC, "fo", PatternType.MATCH), {1, 2}),
        (AclFilter(TOPIC, "*", LITERAL), {2}),
        (AclFilter(TOPIC, "*", PatternType.MATCH), {2}),
        (AclFilter(TOPIC, None, PatternType.MATCH), {0, 1, 2, 3, 4}),
        (AclFilter(principal="User:b"), {3}),
        (AclFilter(host="10.0.0.1"), set()),
        (AclFilter(operation=WRITE), {3}),
        (AclFilter(permission=DENY), set()),
    ],
)
def test_filters(matching: AclFilter, found: set[int]) -> None:
    assert {at for at, each in enumerate(FILTERED) if matching.matches(each)} == found


def test_the_index_knows_what_it_holds() -> None:
    index = AclIndex(FILTERED)
    assert sorted(index) == sorted(FILTERED)
    assert FILTERED[0] in index
    assert acl("allow a read fooo") not in index
    index.remove(FILTERED[1])
    assert len(index) == 5
    assert not list(index.about(TOPIC, "fob"))[1:], "the wildcard alone is left"


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", ""])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES.filter(bool),
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:x", "User:y", "User:*"]),
    st.sampled_from(["*", HOST, "10.0.0.2"]),
    st.sampled_from([READ, DESCRIBE, ALL, Operation.ALTER_CONFIGS]),
    st.sampled_from([ALLOW, DENY]),
)


def plainly(acls: set[Acl], principal: str, operation: Operation, kind: ResourceType, name: str) -> bool:
    """The rules as they are written, over all ACLs."""

    def is_about(each: Acl) -> bool:
        by_prefix = each.pattern_type is PREFIXED and name.startswith(each.name)
        return each.resource_type is kind and (by_prefix or (each.pattern_type is LITERAL and each.name in (name, "*")))

    about = [each for each in acls if is_about(each)]
    applying = [each for each in about if each.principal in (principal, "User:*") and each.host in (HOST, "*")]
    if any(each.permission is DENY and each.operation in (operation, ALL) for each in applying):
        return False
    implied = {DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER}, Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS}}
    allowing = {operation, ALL} | implied.get(operation, set())
    return any(each.permission is ALLOW and each.operation in allowing for each in applying)


@settings(max_examples=150)
@given(st.sets(ACLS, max_size=12), st.sets(ACLS, max_size=4), st.data())
def test_any_acls_decide_as_the_rules_say(acls: set[Acl], removed: set[Acl], data: st.DataObject) -> None:
    index = AclIndex(acls | removed)
    made = StandardAuthorizer(index)
    name = data.draw(st.sampled_from(["a", "ab", "abcd", "b", "*"]))
    asked = ("User:x", READ, TOPIC, name), ("User:x", DESCRIBE, TOPIC, name), ("User:y", Operation.DESCRIBE_CONFIGS, TOPIC, name)
    for principal, operation, kind, what in asked:
        made.decide(principal, HOST, operation, kind, what)
    for each in removed:
        index.remove(each)
    for principal, operation, kind, what in asked:
        decided: Decision = made.decide(principal, HOST, operation, kind, what)
        assert decided.is_allowed is plainly(acls - removed, principal, operation, kind, what)
        assert isinstance(decided.rule, str) or decided.rule in acls - removed


def test_names_that_clients_choose_fill_no_memory() -> None:
    deciding = authorizer("allow alice read orders", kind=GROUP)
    tracemalloc.start()
    try:
        for number in range(500):
            assert not deciding.decide("User:alice", HOST, READ, GROUP, f"{number}" * 10_000).is_allowed
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000
