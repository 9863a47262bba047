"""Calls to group coordinators: find the coordinators of many groups at once, and call each for all its groups.

Where a coordinator has moved, is loading or is gone, its groups are looked up and called again. A refusal is final.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar, Union

from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.static.primitive import i8

from ottla.client.addresses import BrokerEndpoint
from ottla.client.admin.values import Failure
from ottla.client.brokers import Brokers
from ottla.client.deadlines import RETRIABLE, Deadline, DeadlineExceededError
from ottla.client.errors import BrokerUnavailableError, error_code
from ottla.client.network.connection import BrokerConnection
from ottla.core.errors import ErrorCode

GROUP_KEY: Final = 0
GROUPS_MAX: Final = 1_000
"""Groups in one request: more are split, which bounds the size of responses."""

T = TypeVar("T")
Result = Union[T, Failure]  # noqa: UP007 - not "T | Failure": it has to be generic while it is evaluated
GroupCall = Callable[[BrokerConnection, BrokerEndpoint, list[str]], Mapping[str, Result[T]]]


def call_coordinators(brokers: Brokers, name: str, groups: Iterable[str], call: GroupCall[T]) -> dict[str, Result[T]]:
    """The results of `call(connection, coordinator, groups)` by group, in the order of `groups`.

    A group without a result before the deadline has a Failure with REQUEST_TIMED_OUT. `name` is the call's name in its message.
    """
    group_ids = list(dict.fromkeys(groups))
    found: dict[str, Result[T]] = {}
    coordinators: dict[str, BrokerEndpoint] = {}
    deadline, contact = (make(f"{name}(api=FIND_COORDINATOR)") for make in (brokers.deadline, brokers.contact_deadline))
    last: str | None = None
    while pending := [group for group in group_ids if group not in found]:
        try:
            last = _attempt(brokers, pending, coordinators, found, call, deadline)
            if len(found) < len(group_ids):
                deadline.wait(last)
        except BrokerUnavailableError as gone:
            try:
                brokers.wait(gone, deadline, contact, last)
            except DeadlineExceededError as error:
                return _timed_out(group_ids, found, error)
        except DeadlineExceededError as error:
            return _timed_out(group_ids, found, error)
    return {group: found[group] for group in group_ids}


def _timed_out(groups: list[str], found: Mapping[str, Result[T]], error: DeadlineExceededError) -> dict[str, Result[T]]:
    late = Failure(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return {group: found.get(group, late) for group in groups}


def _attempt(
    brokers: Brokers,
    pending: list[str],
    coordinators: dict[str, BrokerEndpoint],
    found: dict[str, Result[T]],
    call: GroupCall[T],
    deadline: Deadline,
) -> str | None:
    """One attempt for all pending groups: the name of a retriable error, if there was one."""
    last = _find(brokers, [group for group in pending if group not in coordinators], coordinators, found, deadline)
    by_coordinator: dict[BrokerEndpoint, list[str]] = {}
    for group in pending:
        if group in coordinators:
            by_coordinator.setdefault(coordinators.pop(group), []).append(group)  # looked up again unless it answers
    for coordinator, groups in by_coordinator.items():
        for chunk in _chunks(groups):
            results = call(brokers.connection(coordinator, deadline), coordinator, chunk)
            for group in chunk:
                result = results.get(group, Failure(ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator did not answer for {group}"))
                if not isinstance(result, Failure) or result.code not in RETRIABLE:
                    found[group] = result
                    continue
                last = result.code.name
                if result.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    coordinators[group] = coordinator
    return last


def _find(
    brokers: Brokers, names: list[str], coordinators: dict[str, BrokerEndpoint], found: dict[str, Result[T]], deadline: Deadline
) -> str | None:
    last = None
    for chunk in _chunks(names):
        request = FindCoordinatorRequest(key_type=i8(GROUP_KEY), coordinator_keys=tuple(chunk))
        for item in brokers.call_any(request, FindCoordinatorResponse, deadline).coordinators:
            code = error_code(item.error_code)
            if item.key not in chunk:
                continue
            if code is ErrorCode.NONE:
                coordinators[item.key] = BrokerEndpoint(item.node_id, item.host, item.port)
            elif code in RETRIABLE:
                last = code.name
            else:
                found[item.key] = Failure(code)
    return last


def _chunks(names: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), GROUPS_MAX):
        yield names[at : at + GROUPS_MAX]
