"""Questions that only a group's coordinator answers: finds the coordinators of many groups at once, asks each for all its groups.

A coordinator that moved, loads or is gone is looked up again for the groups that it did not answer; what a broker refuses stays refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar, Union

from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.static.primitive import i8

from ottla.consumer.admin.values import Failure, Node
from ottla.consumer.brokers import Brokers
from ottla.consumer.connection import Connection
from ottla.consumer.errors import BrokerUnavailableError, error_code
from ottla.consumer.retrying import MAY_PASS, Deadline, OutOfTimeError
from ottla.core.errors import ErrorCode

GROUP_KEY: Final = 0
GROUPS_MAX: Final = 1_000
"""Groups in one request: more come in several, so that no answer is huge."""

T = TypeVar("T")
Answer = Union[T, Failure]  # noqa: UP007 - not "T | Failure": it has to be generic while it is evaluated
Ask = Callable[[Connection, Node, list[str]], Mapping[str, Answer[T]]]


def ask_coordinators(brokers: Brokers, call: str, groups: Iterable[str], ask: Ask[T]) -> dict[str, Answer[T]]:
    """What `ask(connection, coordinator, groups)` says of each group, in the order of `groups`.

    A group that got no answer in its time has a Failure with REQUEST_TIMED_OUT. `call` names the question in that sentence.
    """
    names = list(dict.fromkeys(groups))
    found: dict[str, Answer[T]] = {}
    places: dict[str, Node] = {}
    deadline = brokers.deadline(f"{call}(api=FIND_COORDINATOR)")
    last: str | None = None
    while pending := [name for name in names if name not in found]:
        try:
            last = _attempt(brokers, pending, places, found, ask, deadline)
            if len(found) < len(names):
                deadline.wait(last)
        except BrokerUnavailableError as gone:
            try:
                deadline.wait(last, gone)
            except OutOfTimeError as error:
                return _timed_out(names, found, error)
        except OutOfTimeError as error:
            return _timed_out(names, found, error)
    return {name: found[name] for name in names}


def _timed_out(names: list[str], found: Mapping[str, Answer[T]], error: OutOfTimeError) -> dict[str, Answer[T]]:
    late = Failure(ErrorCode.REQUEST_TIMED_OUT, str(error))
    return {name: found.get(name, late) for name in names}


def _attempt(
    brokers: Brokers, pending: list[str], places: dict[str, Node], found: dict[str, Answer[T]], ask: Ask[T], deadline: Deadline
) -> str | None:
    """One round for all pending groups; gives the name of an error that may pass, if there was one."""
    last = _find(brokers, [name for name in pending if name not in places], places, found, deadline)
    by_node: dict[Node, list[str]] = {}
    for name in pending:
        if name in places:
            by_node.setdefault(places.pop(name), []).append(name)  # unless it answers, it is looked up again
    for node, members in by_node.items():
        for chunk in _chunks(members):
            answers = ask(brokers.node(node, deadline), node, chunk)
            for name in chunk:
                answer = answers.get(name, Failure(ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator did not answer for {name}"))
                if not isinstance(answer, Failure) or answer.code not in MAY_PASS:
                    found[name] = answer
                    continue
                last = answer.code.name
                if answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    places[name] = node
    return last


def _find(brokers: Brokers, names: list[str], places: dict[str, Node], found: dict[str, Answer[T]], deadline: Deadline) -> str | None:
    last = None
    for chunk in _chunks(names):
        request = FindCoordinatorRequest(key_type=i8(GROUP_KEY), coordinator_keys=tuple(chunk))
        for item in brokers.ask_any(request, FindCoordinatorResponse, deadline).coordinators:
            code = error_code(item.error_code)
            if item.key not in chunk:
                continue
            if code is ErrorCode.NONE:
                places[item.key] = Node(item.node_id, item.host, item.port)
            elif code in MAY_PASS:
                last = code.name
            else:
                found[item.key] = Failure(code)
    return last


def _chunks(names: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), GROUPS_MAX):
        yield names[at : at + GROUPS_MAX]
