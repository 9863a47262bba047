"""The ACLs of the cluster: replayed from the metadata log, and the records that create and delete them (Kafka's AclControlManager).

Kafka's sentences for what is refused are here too.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ottla.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ottla.protocol.errors import ApiError, ErrorCode, PeerError
from ottla.security.access import CLUSTER_NAME, Operation, ResourceType
from ottla.security.acls import Acl, AclFilter, AclIndex, PatternType, PermissionType

RECORDS_PER_REQUEST_MAX: Final = 10_000
"""More ACLs are neither created nor deleted by one request, as in Kafka."""
_TOO_MANY: Final = ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
_TOO_MANY_DELETED: Final = ApiError(
    ErrorCode.INVALID_REQUEST, f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation."
)


class ClusterAcls:
    """The ACLs that the metadata log gives, by id; `index` has the same, for decisions."""

    def __init__(self) -> None:
        self.index = AclIndex()
        self._by_id: dict[bytes, Acl] = {}
        self._ids: dict[Acl, bytes] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def replay(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        """Apply a record. Raises LookupError for one that contradicts those before, or whose numbers have no meaning."""
        if isinstance(record, RemoveAccessControlEntryRecord):
            removed = self._by_id.pop(record.entry_id)
            del self._ids[removed]
            self.index.remove(removed)
            return
        try:
            acl = acl_of(
                record.resource_type, record.resource_name, record.pattern_type, record.principal, record.host, record.operation,
                record.permission_type,
            )  # fmt: skip
        except PeerError as error:
            raise LookupError(str(error)) from error
        if record.entry_id in self._by_id or acl in self._ids:
            raise LookupError(f"{acl} is there already")
        self._by_id[record.entry_id] = acl
        self._ids[acl] = record.entry_id
        self.index.add(acl)

    def create(self, acls: Iterable[Acl], new_id: Callable[[], bytes]) -> tuple[list[AccessControlEntryRecord], Sequence[ApiError | None]]:
        """The records of the new ones among some ACLs, and for each why it is refused, or None."""
        records: dict[Acl, AccessControlEntryRecord] = {}
        refused: list[ApiError | None] = []
        for acl in acls:
            problem = acl_problem(acl)
            refused.append(problem)
            if problem is None and acl not in self._ids and acl not in records:
                records[acl] = _record(acl, new_id())
        if len(records) > RECORDS_PER_REQUEST_MAX:
            return [], [_TOO_MANY] * len(refused)
        return list(records.values()), refused

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """The ACLs that a filter means, sorted: those of one resource are next to each other."""
        return sorted(acl for acl in self._ids if wanted.matches(acl))

    def delete(self, filters: Sequence[AclFilter]) -> tuple[list[RemoveAccessControlEntryRecord], Sequence[list[Acl]]] | ApiError:
        """The records that delete what filters mean, and what each of them means. An ACL that two of them mean is deleted once."""
        found = [self.matching(each) for each in filters]
        deleted = dict.fromkeys(acl for acls in found for acl in acls)
        if len(deleted) > RECORDS_PER_REQUEST_MAX:
            return _TOO_MANY_DELETED
        return [RemoveAccessControlEntryRecord(entry_id=self._ids[acl]) for acl in deleted], found


def _record(acl: Acl, entry_id: bytes) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        entry_id=entry_id,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def acl_of(kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    """An ACL of its numbers. Raises PeerError for a number without a meaning, for which Kafka closes the connection."""
    try:
        return Acl(ResourceType(kind), name, PatternType(pattern), principal, host, Operation(operation), PermissionType(permission))
    except ValueError as error:
        raise PeerError(f"an ACL with an unknown element: {error}") from error


def filter_of(message: Any) -> AclFilter:
    """A filter of DescribeAcls or DeleteAcls. Raises PeerError for a number without a meaning."""
    try:
        return AclFilter(
            ResourceType(message.resource_type_filter),
            message.resource_name_filter,
            PatternType(message.pattern_type_filter),
            message.principal_filter,
            message.host_filter,
            Operation(message.operation),
            PermissionType(message.permission_type),
        )
    except ValueError as error:
        raise PeerError(f"a filter of ACLs with an unknown element: {error}") from error


def acl_problem(acl: Acl) -> ApiError | None:
    """Why an ACL cannot be created. Neither its host is checked, nor whether there is such an operation on its type, as in Kafka."""
    problem = None
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        problem = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not acl.name:
        problem = "Invalid empty resource name"
    elif acl.resource_type is ResourceType.ANY:
        problem = "Invalid resourceType ANY"
    elif acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        problem = f"Invalid patternType {acl.pattern_type.name}"
    elif acl.operation is Operation.ANY:
        problem = "Invalid operation ANY"
    elif acl.permission is PermissionType.ANY:
        problem = "Invalid permissionType ANY"
    elif ":" not in acl.principal:
        problem = (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from the principal name)"
        )
    return None if problem is None else ApiError(ErrorCode.INVALID_REQUEST, problem)
