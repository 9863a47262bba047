"""A coordinator that is driven by lines of the scenario language and returns effects."""

from typing import Any

import pytest

from ottla.coordinator.coordinator import FinishLoading
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.commands import Command, GroupEffects
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.scenarios.commands import parse_command

ONE_MEMBER = ("join g - new=m1", "join g m1", "wait 0", "sync g m1 gen=1 assignment=m1:flights/0+1")
PATHS = {
    "Empty": (*ONE_MEMBER, "leave g m1"),
    "PreparingRebalance": (*ONE_MEMBER, "join g - new=m2", "join g m2"),
    "CompletingRebalance": (*ONE_MEMBER, "join g - new=m2", "join g m2", "join g m1"),
    "Stable": (
        *ONE_MEMBER,
        "join g - new=m2",
        "join g m2",
        "join g m1",
        "sync g m2 gen=2",
        "sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1",
    ),
}


class Driver:
    """One coordinator, its log and its clock. `do` runs a line, `wait` lets timers fire."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 0
        self.requests = 0
        self.shell = CoordinatorShell(lambda: GroupCoordinator(GroupSettings(**settings)))
        self.run(FinishLoading())

    def run(self, command: Command) -> GroupEffects:
        """Run a command."""
        return self.shell.run(command, self.now_ms)

    def do(self, line: str) -> GroupEffects:
        """Run one line; `wait` lines let time pass."""
        if line.startswith("wait "):
            self.wait(int(line.removeprefix("wait ")))
            return GroupEffects()
        self.requests += 1
        return self.run(parse_command(line, self.requests))

    def given(self, *lines: str) -> "Driver":
        """Run lines whose effects do not matter."""
        for line in lines:
            self.do(line)
        return self

    def in_state(self, state: str) -> "Driver":
        """Bring group g into a state; m1 leads wherever there are members, m2 follows."""
        return self.given(*PATHS[state])

    def wait(self, ms: int) -> list[GroupEffects]:
        """Let time pass; the effects of every timer that fired."""
        end_ms, fired = self.now_ms + ms, []
        while (deadline_ms := self.shell.coordinator.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            effects = self.shell.fire_timers(self.now_ms)
            assert effects is not None
            fired.append(effects)
        self.now_ms = end_ms
        return fired

    def error(self, line: str) -> ErrorCode | None:
        """Run a line; the error of its own answer, None when it was parked."""
        effects = self.do(line)
        for reply in effects.replies:
            if reply.to == self.requests:
                result: Any = reply.result
                return result.errors[0] if not hasattr(result, "error") else result.error
        return None

    def answer(self, line: str) -> Any:
        """Run a line; its own answer."""
        effects = self.do(line)
        return next(reply.result for reply in effects.replies if reply.to == self.requests)

    def group(self, group_id: str = "g") -> ClassicGroup:
        """The group as it is now."""
        return self.shell.groups[group_id]


@pytest.fixture
def driver() -> Driver:
    """A coordinator that serves, with default settings."""
    return Driver()


@pytest.fixture
def make_driver() -> type[Driver]:
    """For coordinators with other settings."""
    return Driver
