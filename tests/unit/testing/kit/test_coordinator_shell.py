"""The coordinator shell of tests: append, replay, reply, and failed appends."""

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import FinishLoading
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.settings import GroupSettings
from ottla.testing.kit.coordinator_shell import CoordinatorShell
from ottla.testing.scenarios.commands import parse_command


@pytest.fixture
def shell() -> CoordinatorShell:
    shell = CoordinatorShell(lambda: Coordinator(GroupSettings()))
    shell.run(FinishLoading(), 0)
    return shell


def commit(shell: CoordinatorShell, offset: int) -> ErrorCode:
    result = shell.run(parse_command(f"commit g t/0={offset}", offset), 0).replies[0].result
    return getattr(result, "errors")[0]  # noqa: B009


def test_what_is_acknowledged_is_in_the_log(shell: CoordinatorShell) -> None:
    assert commit(shell, 1) is ErrorCode.NONE
    assert [record.group_id for record in shell.read_log()] == ["g"]
    assert shell.stored == shell.coordinator.state.replayed


def test_an_append_fails_once(shell: CoordinatorShell) -> None:
    shell.fail_next_append = ErrorCode.NOT_ENOUGH_REPLICAS
    assert commit(shell, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shell.log == []
    assert commit(shell, 2) is ErrorCode.NONE


def test_a_step_without_records_cannot_fail(shell: CoordinatorShell) -> None:
    shell.fail_next_append = ErrorCode.NOT_ENOUGH_REPLICAS
    shell.run(parse_command("list", 1), 0)
    assert shell.fail_next_append is not None


def test_a_restart_knows_the_log_and_nothing_else(shell: CoordinatorShell) -> None:
    commit(shell, 1)
    before = shell.coordinator
    shell.run(parse_command("join h - new=m1", 2), 0)
    shell.restart(5)
    assert shell.coordinator is not before
    assert shell.stored == shell.coordinator.state.replayed
    assert shell.coordinator.state.groups["h"].pending == {}


def test_timers_fire_one_by_one(shell: CoordinatorShell) -> None:
    shell.run(parse_command("join g - new=m1 session=6s", 1), 0)
    assert shell.fire_timers(5_999) is None
    assert shell.fire_timers(6_000) is not None
    assert shell.fire_timers(6_000) is None


@pytest.mark.parametrize(("keep", "left"), [(True, [None, 3]), (False, [3])])
def test_compaction_keeps_the_last_of_each_key(shell: CoordinatorShell, keep: bool, left: list[int | None]) -> None:
    for offset in (1, 2):
        commit(shell, offset)
    shell.run(parse_command("delete-offsets g t/0", 9), 0)
    shell.run(parse_command("commit g t/1=3", 10), 0)
    shell.compact(keep_tombstones=keep)
    assert [None if record.value is None else getattr(record.value, "offset", 0) for record in shell.read_log()] == left
    shell.restart(0)
    assert shell.stored == shell.coordinator.state.replayed
