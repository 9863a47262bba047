"""The oracle: each of its checks, violated by hand. tests/simulation shows that broken coordinators are found."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.coordinator.coordinator import FinishLoading
from ottla.coordinator.effects import Reply
from ottla.groups.commands import CommitResult, ExpireOffsets, GroupEffects
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from tests.support.kit.coordinator_shell import CoordinatorShell
from trials.__main__ import main
from trials.scenarios.commands import parse_command
from trials.simulation.consumer_member import CONSUMERS
from trials.simulation.consumers import Consumers, Faults
from trials.simulation.oracle import InvariantBroken, Oracle
from trials.simulation.simulated_broker import Conditions, SimulatedBroker, Trace
from trials.simulation.simulator import SimulationFailed, simulate

LINES = ["join g - new=m1 old=yes", "join g - new=m2 old=yes"]


class Watched:
    """A coordinator under an oracle."""

    def __init__(self) -> None:
        self.shell = CoordinatorShell(lambda: GroupCoordinator(GroupSettings(offsets_retention_ms=1_000)))
        self.oracle = Oracle(self.shell)
        self.requests = 0
        self.oracle.effects_applied(self.shell.run(FinishLoading(), 0))

    def ask(self, line: str) -> GroupEffects:
        self.requests += 1
        command: Any = parse_command(line, self.requests)
        self.oracle.request_received(command)
        return self.shell.run(command, 0)

    def given(self, *lines: str) -> None:
        for line in lines:
            self.oracle.effects_applied(self.ask(line))

    def fire(self) -> None:
        while (effects := self.shell.fire_timers(0)) is not None:
            self.oracle.effects_applied(effects)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_accepts_a_valid_run(watched: Watched) -> None:
    watched.given(*LINES)
    watched.fire()
    watched.given("sync g m2 gen=1", "sync g m1 gen=1 assignment=m1:t/0;m2:t/1", "commit g m1 gen=1 t/0=5", "fetch g", "leave g m1 m2")
    watched.given("delete g", "fetch g")
    assert watched.oracle.open_requests() == []


def test_requests_without_an_answer_are_counted(watched: Watched) -> None:
    watched.given(LINES[0])
    assert len(watched.oracle.open_requests()) == 1


def test_a_response_without_a_request(watched: Watched) -> None:
    with pytest.raises(InvariantBroken, match="without a request"):
        watched.oracle.effects_applied(GroupEffects(replies=(Reply(to=99, result=CommitResult(errors=())),)))


def test_a_commit_that_is_not_in_the_log(watched: Watched) -> None:
    watched.shell.fail_next_append = ErrorCode.KAFKA_STORAGE_ERROR
    effects = watched.ask("commit g t/0=5")
    lie = replace(effects, replies=(Reply(to=1, result=CommitResult(errors=(ErrorCode.NONE,))),))
    with pytest.raises(InvariantBroken, match="not in the log"):
        watched.oracle.effects_applied(lie)


def test_an_offset_that_a_restart_lost(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    watched.shell.log.clear()
    watched.shell.begin_loading()
    with pytest.raises(InvariantBroken, match="5 was acknowledged, None is left"):
        watched.oracle.coordinator_restarted()


def test_a_partition_with_two_owners(watched: Watched) -> None:
    watched.given(*LINES)
    watched.fire()
    watched.given("sync g m2 gen=1")
    with pytest.raises(InvariantBroken, match="belongs to m1 and m2 in generation 1"):
        watched.given("sync g m1 gen=1 assignment=m1:t/0;m2:t/0")


def test_a_generation_that_does_not_rise(watched: Watched) -> None:
    watched.given(LINES[0])
    watched.fire()
    effects = watched.ask("sync g m1 gen=1")
    watched.oracle.effects_applied(effects)
    with pytest.raises(InvariantBroken, match="generation 1 is written after 1"):
        watched.oracle.effects_applied(replace(effects, replies=()))


def test_a_rebalance_without_a_trigger(watched: Watched) -> None:
    effects = watched.ask(LINES[0])
    with pytest.raises(InvariantBroken, match="1 rebalances started, 0 triggers were published"):
        watched.oracle.effects_applied(replace(effects, events=()))


def test_a_member_without_a_deadline(watched: Watched) -> None:
    effects = watched.ask(LINES[0])
    registry = watched.shell.coordinator.state
    registry.timers.cancel(registry.groups["g"].join_timer)
    with pytest.raises(InvariantBroken, match="m1 has no timer"):
        watched.oracle.effects_applied(effects)


def test_knowledge_that_no_log_has(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    watched.shell.coordinator.state.replayed.offsets.clear()
    with pytest.raises(InvariantBroken, match="differs from its log"):
        watched.given("list")


def test_an_offset_that_expires_before_its_time(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    watched.oracle.offsets_expired(watched.shell.run(ExpireOffsets(), 999), 999)
    effects = watched.shell.run(ExpireOffsets(), 1_000)
    with pytest.raises(InvariantBroken, match="is 999 ms old and expires"):
        watched.oracle.offsets_expired(effects, 999)
    watched.oracle.offsets_expired(effects, 1_000)
    watched.given("fetch g t/0")


def test_an_offset_that_expires_under_its_consumer(watched: Watched) -> None:
    watched.given(LINES[0])
    watched.fire()
    watched.given("sync g m1 gen=1 assignment=m1:flights/0", "commit g m1 gen=1 flights/0=5 t/0=5")
    effects = watched.shell.run(ExpireOffsets(), 1_000)
    watched.oracle.offsets_expired(effects, 1_000)
    (record,) = effects.records
    stolen = replace(record, topic="flights")
    with pytest.raises(InvariantBroken, match="expires, and m1 consumes it"):
        watched.oracle.offsets_expired(replace(effects, records=(stolen,)), 1_000)
    watched.given(LINES[1])
    with pytest.raises(InvariantBroken, match=r"expires while the group is GroupState\.PREPARING_REBALANCE"):
        watched.oracle.offsets_expired(effects, 1_000)


def test_a_group_that_expires_and_still_exists(watched: Watched) -> None:
    watched.given("commit g t/0=5")
    effects = watched.shell.run(ExpireOffsets(), 1_000)
    watched.oracle.offsets_expired(effects, 1_000)
    watched.given("commit g t/0=5")
    with pytest.raises(InvariantBroken, match="g expires with"):
        watched.oracle.offsets_expired(replace(effects, records=effects.records[1:]), 1_000)


# --- the simulator: one seed is one run, the group recovers when faults end, and violations are reported


class Broken(GroupCoordinator):
    """Every timer is a mistake of ours."""

    def fire_timers(self, *, now_ms: int, timer_ms: int | None = None) -> GroupEffects:
        raise AssertionError("on purpose")


def test_a_run_is_reported_and_summarized() -> None:
    lines: list[str] = []
    outcome = simulate(11, report=lines.append)
    assert outcome.seed == 11
    assert outcome.steps > 0
    assert outcome.records > 0
    assert any("fault" in line for line in lines)
    assert outcome == simulate(11), "reporting changes nothing"


def test_our_own_mistakes_are_failures_of_the_seed() -> None:
    with pytest.raises(SimulationFailed, match=r"seed 3, .*on purpose.*make sim SEED=3, or python -m trials simulation --seed 3"):
        simulate(3, make=Broken)
    with pytest.raises(
        SimulationFailed, match=r"make sim SEED=3 MEMBERS=consumer, or python -m trials simulation --members consumer --seed 3"
    ):
        simulate(3, make=Broken, kind=CONSUMERS)


def test_the_members_of_a_seed_are_chosen_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for members, outcome in ([], simulate(4)), (["--members", "consumer"], simulate(4, kind=CONSUMERS)):
        assert main(["simulation", *members, "--seed", "4,4"]) == 0
        assert capsys.readouterr().out.splitlines()[:2] == [f"seed 4: {outcome}: ok"] * 2


# --- every kind of fault is injected into a simulated group, until faults end


def test_all_kinds_happen_and_stop_when_faults_end() -> None:
    lines: list[str] = []
    conditions = Conditions(Random(5))
    trace = Trace(conditions.events, lines.append)
    shell = CoordinatorShell(lambda: GroupCoordinator(GroupSettings(group_initial_rebalance_delay_ms=0)))
    broker = SimulatedBroker(shell, conditions, trace, shares_appends=False)
    consumers = Consumers(conditions, broker)
    broker.start()
    faults = Faults(conditions, broker, consumers, trace, clock_rng=Random(1))
    consumers.add(1)
    faults.inject()
    faults.jump_clock_later()
    conditions.events.run_until(600_000, lambda: False)
    kinds = {line.split("fault: ")[1].split()[0] for line in lines if "fault: " in line}
    assert kinds == {"freeze", "crash", "leave", "join", "twin", "topics", "grow", "broker", "move", "standalone"}
    assert any("the time of day is" in line for line in lines)
    conditions.has_faults = False
    injected = len([line for line in lines if "fault: " in line])
    conditions.events.run_until(660_000, lambda: False)
    assert len([line for line in lines if "fault: " in line]) == injected
