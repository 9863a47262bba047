"""Checks before the group: the responses of a coordinator that cannot serve."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.request_checks import CoordinatorStatus, error_result, refusal
from ottla.core.groups.settings import GroupSettings
from ottla.testing.scenarios.commands import parse_command

E = ErrorCode
SETTINGS = GroupSettings()
LINES = {
    "join g - new=m1": E.COORDINATOR_LOAD_IN_PROGRESS,
    "sync g m1 gen=1": E.REBALANCE_IN_PROGRESS,
    "heartbeat g m1 gen=1": E.NONE,
    "leave g m1": E.COORDINATOR_LOAD_IN_PROGRESS,
    "commit g flights/0=1": E.COORDINATOR_LOAD_IN_PROGRESS,
    "fetch g": E.COORDINATOR_LOAD_IN_PROGRESS,
    "delete-offsets g flights/0": E.COORDINATOR_LOAD_IN_PROGRESS,
    "describe g": E.COORDINATOR_LOAD_IN_PROGRESS,
    "list": E.COORDINATOR_LOAD_IN_PROGRESS,
    "delete g": E.COORDINATOR_LOAD_IN_PROGRESS,
}


def error(result: Any) -> ErrorCode:
    return result.error if hasattr(result, "error") else result.errors[0]


@pytest.mark.parametrize("line", LINES)
def test_while_loading(line: str) -> None:
    command: Any = parse_command(line, 1)
    assert error(refusal(command, CoordinatorStatus.LOADING, SETTINGS)) is LINES[line]


@pytest.mark.parametrize("line", LINES)
def test_after_resigning(line: str) -> None:
    command: Any = parse_command(line, 1)
    assert error(refusal(command, CoordinatorStatus.RESIGNED, SETTINGS)) is E.NOT_COORDINATOR


@pytest.mark.parametrize("line", LINES)
def test_while_it_serves_the_group_decides(line: str) -> None:
    command: Any = parse_command(line, 1)
    assert refusal(command, CoordinatorStatus.ACTIVE, SETTINGS) is None


@pytest.mark.parametrize(
    "line", ["join '' - new=m1", "sync '' m1 gen=1", "heartbeat '' m1 gen=1", "leave '' m1", "delete-offsets '' flights/0"]
)
@pytest.mark.parametrize("status", CoordinatorStatus)
def test_the_group_id_is_checked_first(line: str, status: CoordinatorStatus) -> None:
    command: Any = parse_command(line, 1)
    assert error(refusal(command, status, SETTINGS)) is E.INVALID_GROUP_ID


@pytest.mark.parametrize("line", ["commit '' flights/0=1", "fetch ''", "describe ''", "delete ''"])
def test_some_requests_may_name_the_empty_group(driver: Any, line: str) -> None:
    command: Any = parse_command(line, 1)
    assert refusal(command, CoordinatorStatus.ACTIVE, SETTINGS) is None
    assert driver.error(line) is not E.INVALID_GROUP_ID


def test_the_session_timeout_is_checked_before_loading() -> None:
    command: Any = parse_command("join g - new=m1 session=5999", 1)
    assert error(refusal(command, CoordinatorStatus.LOADING, SETTINGS)) is E.INVALID_SESSION_TIMEOUT


def test_a_commit_is_refused_for_every_partition() -> None:
    command: Any = parse_command("commit g flights/0=1 flights/1=1", 1)
    result: Any = error_result(command, E.NOT_COORDINATOR)
    assert result.errors == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
