"""Access control lists and what they decide: Kafka's StandardAuthorizer (KIP-11, KIP-290, KIP-679, KIP-801), without I/O and clock.

A principal may do something if it is a super user; else if no DENY applies and some ALLOW does; else, where no ACL at all is about the
resource, if `allow.everyone.if.no.acl.found`. An ACL applies if its resource, its principal, its host and its operation do. `AclIndex`
finds those of a resource and a principal without looking at the others: a decision costs the same with ten thousand ACLs as with ten.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.security.access import OPERATIONS, Operation, Principal, ResourceType

WILDCARD: Final = "*"
"""As a literal name, every resource of a type; as a host, every host."""
ANY_USER: Final = "User:*"
CACHED_MAX: Final = 50_000
"""Decisions that are remembered; when there are more, all are forgotten."""
CACHED_NAME_CHARACTERS_MAX: Final = 255
"""Decisions about longer names, which clients choose (a group's may have 32,767 bytes), are not remembered: a remembered one takes some
300 bytes, and 1 kB at most."""
_Key = tuple[Principal | str, str, Operation, ResourceType, str | None]
_MADE_UP_NAME: Final = "hardcode"
"""The name with which Kafka asks whether everything of a type is allowed."""


class PatternType(IntEnum):
    """How an ACL's resource name is compared. ANY and MATCH stand in filters alone."""

    __hash__ = int.__hash__
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """What an ACL says. ANY stands in filters alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One access control entry, with the resources that it is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: PermissionType

    def __str__(self) -> str:
        return (
            f"StandardAcl(resourceType={self.resource_type.name}, resourceName={self.name}, patternType={self.pattern_type.name},"
            f" principal={self.principal}, host={self.host}, operation={self.operation.name}, permissionType={self.permission.name})"
        )


class AclFilter(NamedTuple):
    """Which ACLs are meant. None and ANY stand for every value; the pattern type MATCH for each ACL that is about the name."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether an ACL is meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (PermissionType.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        return acl.name == WILDCARD if acl.pattern_type is PatternType.LITERAL else self.name.startswith(acl.name)


class Decision(NamedTuple):
    """Whether something is allowed, and the rule that decides: an ACL, or `SuperUser`, `DefaultAllow`, `DefaultDeny`."""

    is_allowed: bool
    rule: Acl | str

    def __str__(self) -> str:
        return self.rule if isinstance(self.rule, str) else f"MatchingAcl(acl={self.rule})"


SUPER_USER: Final = Decision(True, "SuperUser")
DEFAULT_ALLOW: Final = Decision(True, "DefaultAllow")
DEFAULT_DENY: Final = Decision(False, "DefaultDeny")

IMPLYING: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""The operations whose ALLOW allows another one too. A DENY denies nothing more."""


class AclIndex:
    """ACLs by what they are about. `_by_pattern`: by type, name and pattern type, then by principal."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._by_pattern: dict[tuple[ResourceType, str, PatternType], dict[str, list[Acl]]] = {}
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}
        self._count = 0
        self.version = 0
        """Grows with every change."""
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Acl]:
        for by_principal in self._by_pattern.values():
            for acls in by_principal.values():
                yield from acls

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._by_pattern.get(acl[:3], {}).get(acl.principal, ())

    def add(self, acl: Acl) -> None:
        """Add an ACL that is not there yet."""
        by_principal = self._by_pattern.get(acl[:3])
        if by_principal is None:
            by_principal = self._by_pattern[acl[:3]] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                lengths = self._prefix_lengths.setdefault(acl.resource_type, {})
                lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1
        by_principal.setdefault(acl.principal, []).append(acl)
        self._count += 1
        self.version += 1

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that is there."""
        by_principal = self._by_pattern[acl[:3]]
        by_principal[acl.principal].remove(acl)
        self._count -= 1
        self.version += 1
        if not by_principal[acl.principal]:
            del by_principal[acl.principal]
        if not by_principal:
            del self._by_pattern[acl[:3]]
            if acl.pattern_type is PatternType.PREFIXED:
                lengths = self._prefix_lengths[acl.resource_type]
                lengths[len(acl.name)] -= 1
                if not lengths[len(acl.name)]:
                    del lengths[len(acl.name)]

    def about(self, kind: ResourceType, name: str) -> Iterator[dict[str, list[Acl]]]:
        """The ACLs of a resource, by principal, in Kafka's order: literal and longest prefix first, the wildcard last."""
        literal = self._by_pattern.get((kind, name, PatternType.LITERAL))
        if literal is not None:
            yield literal
        for length in sorted(self._prefix_lengths.get(kind, ()), reverse=True):
            prefixed = self._by_pattern.get((kind, name[:length], PatternType.PREFIXED)) if length <= len(name) else None
            if prefixed is not None:
                yield prefixed
        wildcard = self._by_pattern.get((kind, WILDCARD, PatternType.LITERAL))
        if wildcard is not None and name != WILDCARD:
            yield wildcard

    def of_type(self, kind: ResourceType, principal: str) -> Iterator[Acl]:
        """The ACLs of a type of resource that are about a principal."""
        for (resource_type, _, _), by_principal in self._by_pattern.items():
            if resource_type is kind:
                for name in (principal, ANY_USER):
                    yield from by_principal.get(name, ())


class StandardAuthorizer:
    """Decides by the ACLs of an index. Decisions are remembered until an ACL changes.

    A principal is given as one, or as its text.
    """

    def __init__(self, index: AclIndex, super_users: Iterable[str] = (), *, allow_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._default = DEFAULT_ALLOW if allow_if_no_acl_found else DEFAULT_DENY
        self._index = index
        self._version = index.version
        self._decisions: dict[_Key, Decision] = {}

    def decide(self, principal: Principal | str, host: str, operation: Operation, kind: ResourceType, name: str) -> Decision:
        """Whether a principal at a host (as Java prints addresses) may do something with one resource."""
        if self._version != self._index.version:
            self._forget()
        if len(name) > CACHED_NAME_CHARACTERS_MAX:
            return self._decide(str(principal), host, operation, kind, name)
        key = (principal, host, operation, kind, name)
        decision = self._decisions.get(key)
        return self._remember(key, self._decide(str(principal), host, operation, kind, name)) if decision is None else decision

    def _decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> Decision:
        if principal in self._super_users:
            return SUPER_USER
        allowing: Acl | None = None
        has_acls = False
        asked, granting = (operation, Operation.ALL), (operation, Operation.ALL, *IMPLYING.get(operation, ()))
        for by_principal in self._index.about(kind, name):
            has_acls = True
            for acl in (*by_principal.get(principal, ()), *by_principal.get(ANY_USER, ())):
                if acl.host not in (WILDCARD, host):
                    continue
                if acl.permission is PermissionType.DENY:
                    if acl.operation in asked:
                        return Decision(False, acl)
                elif allowing is None and acl.operation in granting:
                    allowing = acl
        if allowing is not None:
            return Decision(True, allowing)
        return DEFAULT_DENY if has_acls else self._default

    def decide_for_any(self, principal: Principal | str, host: str, operation: Operation, kind: ResourceType) -> Decision:
        """Whether a principal may do something with at least one resource of a type (KIP-679: Authorizer.authorizeByResourceType)."""
        if self._version != self._index.version:
            self._forget()
        key = (principal, host, operation, kind, None)
        decision = self._decisions.get(key)
        return self._remember(key, self._decide_for_any(str(principal), host, operation, kind)) if decision is None else decision

    def _decide_for_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> Decision:
        whole_type = self._decide(principal, host, operation, kind, _MADE_UP_NAME)
        if whole_type.is_allowed:
            return whole_type
        denied: set[tuple[PatternType, str]] = set()
        allowing: list[Acl] = []
        for acl in self._index.of_type(kind, principal):
            if acl.host not in (WILDCARD, host) or acl.operation not in (operation, Operation.ALL):
                continue
            if acl.permission is PermissionType.ALLOW:
                allowing.append(acl)
            elif acl.pattern_type is PatternType.LITERAL and acl.name == WILDCARD:
                return Decision(False, acl)
            else:
                denied.add((acl.pattern_type, acl.name))
        for acl in allowing:
            is_literal = acl.pattern_type is PatternType.LITERAL
            if is_literal and acl.name == WILDCARD:
                return Decision(True, acl)
            if is_literal and (PatternType.LITERAL, acl.name) in denied:
                continue
            if not any((PatternType.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1)):
                return Decision(True, acl)
        return DEFAULT_DENY

    def _forget(self) -> None:
        # The version first: an ACL that changes meanwhile, in another thread, makes what is decided from now on be forgotten again.
        self._version = self._index.version
        self._decisions.clear()

    def _remember(self, key: _Key, decision: Decision) -> Decision:
        if len(self._decisions) >= CACHED_MAX:
            self._decisions.clear()
        self._decisions[key] = decision
        return decision

    def authorized_operations(self, principal: Principal | str, host: str, kind: ResourceType, name: str) -> int:
        """What a principal may do with a resource, as a bit field."""
        operations = (operation for operation in Operation if OPERATIONS[kind] & 1 << operation)
        return sum(1 << operation for operation in operations if self.decide(principal, host, operation, kind, name).is_allowed)
