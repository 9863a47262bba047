"""Who asks for what: principals, resources and operations, by Kafka's names and numbers (KIP-11, KIP-290), and the errors of refusals."""

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.protocol.errors import ErrorCode


class Principal(NamedTuple):
    """Who sends requests. Its text is `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a connection without authentication."""


class ResourceType(IntEnum):
    """What operations are done on. ANY stands in filters alone."""

    __hash__ = int.__hash__  # Enum's own is a function of Python: a decision that is remembered would take three times as long

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """What is done. A bit field of operations has bit n for the operation of number n. ANY stands in filters alone, ALL in ACLs."""

    __hash__ = int.__hash__

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(NamedTuple):
    """One topic, group, transactional id, or the cluster."""

    type: ResourceType
    name: str


CLUSTER_NAME: Final = "kafka-cluster"
"""The only name that the cluster has as a resource."""

REFUSAL: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS: Final = {
    ResourceType.TOPIC: _bits(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, *_CONFIGS),
    ResourceType.GROUP: _bits(Operation.READ, Operation.DELETE, *_CONFIGS),
    ResourceType.CLUSTER: _bits(Operation.CREATE, Operation.ALTER, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE, *_CONFIGS),
}
"""The operations that exist for each type of resource, as a bit field."""
OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
"""The authorized operations of a response to a client that did not ask for them."""
