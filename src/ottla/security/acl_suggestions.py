"""The smallest set of ACLs for what principals did, from audit lines of Kafka's authorizers: what they were allowed, and what denied.

An operation that another one implies needs no ACL of its own. Nobody gets a right to more than the names in the lines. What a client only
asks about (its authorized operations) is left out.
"""

import re
from collections.abc import Iterable
from typing import Final

from ottla.security.access import Operation, ResourceType
from ottla.security.acls import IMPLYING, WILDCARD, Acl, PatternType, PermissionType

_LINE: Final = re.compile(
    r"Principal = (?P<principal>.+?) is (?:Allowed|Denied) operation = (?P<operation>\w+) from host = (?P<host>\S+)"
    r" on resource = (?P<type>\w+):LITERAL:(?P<name>.*) for request = (?P<request>\w+) with resourceRefCount = "
)
_TYPES: Final = {kind.name.replace("_", "").lower(): kind for kind in ResourceType}
_ONLY_ASKED: Final = {("Metadata", "DESCRIBE"), ("DescribeCluster", "DESCRIBE")}
"""Of the cluster: they decide only whether authorized operations are shown."""


def suggest(lines: Iterable[str], principal: str | None = None) -> list[Acl]:
    """The ACLs of one principal, or of all in the lines, sorted. Lines of another form are passed over."""
    done: dict[tuple[str, ResourceType, str], set[Operation]] = {}
    for line in lines:
        found = _LINE.search(line)
        if found is None or found["type"].lower() not in _TYPES or found["operation"] not in Operation.__members__:
            continue
        kind = _TYPES[found["type"].lower()]
        if principal not in (None, found["principal"]):
            continue
        if kind is ResourceType.CLUSTER and (found["request"], found["operation"]) in _ONLY_ASKED:
            continue
        done.setdefault((found["principal"], kind, found["name"]), set()).add(Operation[found["operation"]])
    return sorted(
        Acl(kind, name, PatternType.LITERAL, who, WILDCARD, operation, PermissionType.ALLOW)
        for (who, kind, name), operations in done.items()
        for operation in operations
        if not operations.intersection(IMPLYING.get(operation, ()))
    )
