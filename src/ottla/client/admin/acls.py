"""An administrator's requests about ACLs: to any broker, which has the controller carry them out."""

from collections.abc import Sequence

from kio.schema.create_acls.v2.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v2.response import CreateAclsResponse
from kio.schema.delete_acls.v2.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v2.response import DeleteAclsResponse
from kio.schema.describe_acls.v2.request import DescribeAclsRequest
from kio.schema.describe_acls.v2.response import DescribeAclsResponse
from kio.static.primitive import i8

from ottla.client.admin.values import Failure
from ottla.client.brokers import Brokers
from ottla.client.deadlines import Deadline
from ottla.client.errors import error_code
from ottla.protocol.errors import ErrorCode
from ottla.security.access import Operation, ResourceType
from ottla.security.acls import Acl, AclFilter, PatternType, PermissionType


def describe_acls(brokers: Brokers, wanted: AclFilter) -> list[Acl] | Failure:
    """The ACLs that a filter means, sorted, or why they are not shown."""

    def attempt(deadline: Deadline) -> list[Acl] | Failure:
        request = DescribeAclsRequest(
            resource_type_filter=i8(wanted.resource_type),
            resource_name_filter=wanted.name,
            pattern_type_filter=i8(wanted.pattern_type),
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=i8(wanted.operation),
            permission_type=i8(wanted.permission),
        )
        answer = brokers.call_any(request, DescribeAclsResponse, deadline)
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            return Failure(code, answer.error_message)
        return sorted(
            Acl(
                ResourceType(each.resource_type), each.resource_name, PatternType(each.pattern_type), acl.principal, acl.host,
                Operation(acl.operation), PermissionType(acl.permission_type),
            )
            for each in answer.resources
            for acl in each.acls
        )  # fmt: skip

    return brokers.retry("describeAcls", attempt)


def create_acls(brokers: Brokers, acls: Sequence[Acl]) -> list[Failure | None]:
    """Create ACLs; for each, None, or why it was refused."""

    def attempt(deadline: Deadline) -> list[Failure | None]:
        creations = tuple(
            AclCreation(
                resource_type=i8(acl.resource_type),
                resource_name=acl.name,
                resource_pattern_type=i8(acl.pattern_type),
                principal=acl.principal,
                host=acl.host,
                operation=i8(acl.operation),
                permission_type=i8(acl.permission),
            )
            for acl in acls
        )
        answer = brokers.call_any(CreateAclsRequest(creations=creations), CreateAclsResponse, deadline)
        return [_failure(each.error_code, each.error_message) for each in answer.results]

    return brokers.retry("createAcls", attempt)


def delete_acls(brokers: Brokers, filters: Sequence[AclFilter]) -> list[Failure | None]:
    """Delete the ACLs that filters mean; for each filter, None, or why it was refused."""

    def attempt(deadline: Deadline) -> list[Failure | None]:
        wanted = tuple(
            DeleteAclsFilter(
                resource_type_filter=i8(each.resource_type),
                resource_name_filter=each.name,
                pattern_type_filter=i8(each.pattern_type),
                principal_filter=each.principal,
                host_filter=each.host,
                operation=i8(each.operation),
                permission_type=i8(each.permission),
            )
            for each in filters
        )
        answer = brokers.call_any(DeleteAclsRequest(filters=wanted), DeleteAclsResponse, deadline)
        return [_failure(each.error_code, each.error_message) for each in answer.filter_results]

    return brokers.retry("deleteAcls", attempt)


def _failure(number: int, message: str | None) -> Failure | None:
    code = error_code(number)
    return None if code is ErrorCode.NONE else Failure(code, message)
