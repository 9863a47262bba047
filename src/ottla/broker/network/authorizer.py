"""What the sessions of a broker may do, by the cluster's ACLs, and the audit lines about it, as Kafka's StandardAuthorizer writes them.

Lines go to the logger `kafka.authorizer.logger`: denied at INFO, allowed at DEBUG. The same decision for the same API is written once in
ten seconds, and there are at most 10,000 lines in that time, since a client chooses the names in them; of a name, 255 characters are
written.
"""

import logging
from collections.abc import Callable
from typing import Final

from ottla.broker.network.request import Session
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, Resource, ResourceType
from ottla.security.acls import Decision, StandardAuthorizer
from ottla.text import printable

log = logging.getLogger("kafka.authorizer.logger")

REPEATED_AFTER_S: Final = 10.0
LINES_MAX: Final = 10_000
NAME_CHARACTERS_MAX: Final = 255


class AclAuthorizer:
    """The authorizer of all sessions: decides by `decisions`, and writes audit lines."""

    def __init__(self, decisions: StandardAuthorizer, clock_s: Callable[[], float]) -> None:
        self._decisions = decisions
        self._clock_s = clock_s
        self._since_s = float("-inf")
        self._written: set[tuple[str, str, Operation, ResourceType, str, int, bool]] = set()

    def authorize(self, session: Session, operation: Operation, kind: ResourceType, name: str, log_if_denied: bool = True) -> bool:
        """Whether the session's principal may do this."""
        decision = self._decisions.decide(session.principal, session.host, operation, kind, name)
        if log_if_denied if not decision.is_allowed else log.isEnabledFor(logging.DEBUG):
            self._audit(session, operation, Resource(kind, name), decision)
        return decision.is_allowed

    def authorize_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        """Whether the session's principal may do this with at least one resource of a type (KIP-679)."""
        return self._decisions.decide_for_any(session.principal, session.host, operation, kind).is_allowed

    def authorized_operations(self, session: Session, resource: Resource) -> int:
        """What the session's principal may do with a resource, as a bit field. Nothing is written about it."""
        return self._decisions.authorized_operations(session.principal, session.host, *resource)

    def _audit(self, session: Session, operation: Operation, resource: Resource, decision: Decision) -> None:
        now_s = self._clock_s()
        if now_s - self._since_s >= REPEATED_AFTER_S:
            self._written.clear()
            self._since_s = now_s
        principal, name = str(session.principal), resource.name[:NAME_CHARACTERS_MAX]
        key = (principal, session.host, operation, resource.type, name, session.api_key, decision.is_allowed)
        if key in self._written or len(self._written) >= LINES_MAX:
            return
        self._written.add(key)
        log.log(
            logging.DEBUG if decision.is_allowed else logging.INFO,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s with resourceRefCount = 1"
            " based on rule %s",
            printable(principal),
            "Allowed" if decision.is_allowed else "Denied",
            operation.name,
            session.host,
            _TYPE_NAMES[resource.type],
            printable(name),
            _API_NAMES.get(session.api_key, str(session.api_key)),
            printable(str(decision)),
        )


def _pascal_case(name: str) -> str:
    return "".join(word.title() for word in name.split("_"))


_TYPE_NAMES: Final = {kind: _pascal_case(kind.name) for kind in ResourceType}
_API_NAMES: Final = {int(key): _pascal_case(key.name) for key in ApiKey}
