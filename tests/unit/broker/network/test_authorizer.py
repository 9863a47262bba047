"""The audit lines of the authorizer, and that what it remembers is never older than the ACLs."""

import logging
from collections.abc import Iterator

import pytest

from ottla.broker.network import authorizer
from ottla.broker.network.authorizer import REPEATED_AFTER_S, AclAuthorizer
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, Principal, ResourceType
from ottla.security.acls import Acl, AclIndex, PatternType, PermissionType, StandardAuthorizer
from tests.support.kit.sessions import client_session

READ, TOPIC = Operation.READ, ResourceType.TOPIC


def acl(name: str, permission: PermissionType, principal: str = "User:bob") -> Acl:
    return Acl(TOPIC, name, PatternType.PREFIXED, principal, "*", READ, permission)


class World:
    """An authorizer with a clock, and a session of bob that fetches."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.index = AclIndex()
        self.authorizer = AclAuthorizer(StandardAuthorizer(self.index, ["User:root"]), lambda: self.now_s)
        self.session = client_session(authorizer=self.authorizer)
        self.session.principal = Principal("User", "bob")
        self.session.api_key = ApiKey.FETCH

    def may(self, name: str, *, log_if_denied: bool = True) -> bool:
        return self.session.may(READ, TOPIC, name, log_if_denied=log_if_denied)


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        yield World()


def test_lines_are_kafkas(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.index.add(acl("green", PermissionType.DENY))
    world.index.add(acl("a", PermissionType.ALLOW))
    assert not world.may("green1")
    assert world.may("alpha")
    rule = "principal=User:bob, host=*, operation=READ, permissionType=DENY"
    assert caplog.messages == [
        "Principal = User:bob is Denied operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:green1 for request = Fetch with"
        " resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=green, patternType=PREFIXED,"
        f" {rule}))"
    ]
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    assert world.may("alpha"), "what was remembered is written too"
    assert "Principal = User:bob is Allowed operation = READ from host = 127.0.0.1 on resource = Topic:LITERAL:alpha" in caplog.messages[1]
    world.session.principal, world.session.api_key = Principal("User", "root"), ApiKey.ADD_OFFSETS_TO_TXN
    assert world.session.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "t")
    assert caplog.messages[2].endswith(
        "on resource = TransactionalId:LITERAL:t for request = AddOffsetsToTxn with resourceRefCount = 1 based on rule SuperUser"
    )


def test_the_same_line_is_written_once_in_ten_seconds(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        world.may("t")
    assert len(caplog.messages) == 1
    world.session.api_key = ApiKey.METADATA
    world.may("t")
    assert len(caplog.messages) == 2
    world.now_s = REPEATED_AFTER_S
    world.may("t")
    assert len(caplog.messages) == 3


def test_names_of_clients_do_not_fill_the_log(world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "LINES_MAX", 5)
    for number in range(100):
        world.may(f"t{number}")
    assert len(caplog.messages) == 5
    world.now_s = REPEATED_AFTER_S
    assert not world.may("a\nb")
    assert "Topic:LITERAL:a\\nb" in caplog.messages[5], "a line stays one line"


def test_what_is_only_left_out_of_a_list_writes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert not world.may("t", log_if_denied=False)
    assert world.session.operations(TOPIC, "t") == 0
    assert caplog.messages == []


def test_what_was_allowed_ends_with_its_acl_and_its_principal(world: World) -> None:
    allowing = acl("t", PermissionType.ALLOW)
    world.index.add(allowing)
    for _ in ("decided", "remembered"):
        assert world.may("t")
    world.session.principal = Principal("User", "carol")
    assert not world.may("t")
    world.session.principal = Principal("User", "bob")
    assert world.may("t")
    world.index.remove(allowing)
    assert not world.may("t")
    world.index.add(allowing)
    assert world.may("t")
    world.index.add(acl("t", PermissionType.DENY, "User:*"))
    assert not world.may("t")
