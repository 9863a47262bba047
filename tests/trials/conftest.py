"""A world without brokers, in which members own their share of the partitions at once, and a label."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trials.incidents import group_run
from trials.incidents.corpus import Incident, LabelledRebalance
from trials.incidents.group_run import GroupRun, Plan
from trials.incidents.members.program import MemberSettings


class SceneMember:
    """A member that carries out commands and notes them."""

    def __init__(self, world: "SceneWorld", settings: MemberSettings) -> None:
        self.world, self.settings, self.name = world, settings, settings.name
        self.is_active, self.back_at = True, 0.0
        world.members.append(self)

    def assignment(self) -> set[str]:
        return self.world.share(self)

    def wait_until_started(self) -> None:
        self.world.clock.sleep(self.world.start_seconds)

    def do(self, action: str, **more: Any) -> None:
        self.world.done.append(action)
        self.back_at = self.world.clock.seconds + more.get("seconds", 0)
        self.is_active = action != "unsubscribe"

    def close(self) -> None:
        self.world.done.append("close")
        self.is_active = False

    def freeze(self) -> None:
        self.world.done.append("freeze")
        self.is_active = False

    def thaw(self) -> None:
        self.is_active = True

    def kill(self) -> None:
        self.world.done.append("kill")
        self.is_active = False


class SceneWorld:
    """Topics and members of one group."""

    def __init__(self, directory: Path, clock: "Clock") -> None:
        self.clock, self.start_seconds = clock, 0.5
        self.servers = "127.0.0.1:1"
        self.directory = directory
        self.topics: dict[str, int] = {}
        self.members: list[SceneMember] = []
        self.done: list[str] = []
        self.shared_java_log = directory / "shared-java.log"
        self.shared_java_log.touch()

    def share(self, member: SceneMember) -> set[str]:
        """Its part of all partitions."""
        active = [each for each in self.members if each.is_active and each.back_at <= self.clock.seconds]
        if member not in active:
            return set()
        everything = sorted(f"{topic}-{number}" for topic, count in self.topics.items() for number in range(count))
        return set(everything[active.index(member) :: len(active)])

    def create_topic(self, name: str, partitions: int) -> None:
        self.topics[name] = partitions

    add_partitions = create_topic

    def delete_topic(self, name: str) -> None:
        del self.topics[name]

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        self.done.append(f"{topic} {name}={value}")

    def stop_producing(self, topics: list[str]) -> None:
        """Nothing is produced."""

    def start_member(self, settings: MemberSettings, log_path: Path, *, is_alone: bool, rank: int = 0) -> SceneMember:
        log_path.write_text("started\n")
        return SceneMember(self, settings)

    def remove_all_members(self, group: str, reason: str | None) -> None:
        self.done.append("remove")

    def jvm(self) -> threading.Semaphore:
        return threading.Semaphore()


LABEL = LabelledRebalance(
    from_ms=1,
    to_ms=2,
    cause="JOIN_NEW",
    also=("COOP_FOLLOWUP",),
    kind="rebalance",
    is_action=True,
    is_certain=True,
    planned=True,
    avoidable=False,
)
INCIDENT = Incident(
    id="a1",
    run="r",
    cluster="ottla",
    group="g",
    protocol="classic",
    assignor="range",
    clients=("java", "aiokafka"),
    actor=0,
    cause="JOIN_NEW",
    action="join",
    end_ms=3,
    half="",
    rebalances=(LABEL,),
)


@pytest.fixture
def incident() -> Incident:
    """An incident with one label."""
    return INCIDENT


@pytest.fixture
def new_plan() -> Callable[..., Plan]:
    """`new_plan(action, **changes)`: a plan of three members."""

    def make(action: str, **changes: Any) -> Plan:
        fields: dict[str, Any] = {
            "id": f"s-{action}",
            "cause": "JOIN_NEW",
            "action": action,
            "protocol": "classic",
            "assignor": "range",
            "clients": ("java", "confluent", "aiokafka"),
            "actor": 1,
            "seed": 7,
        }
        return Plan(**(fields | changes))

    return make


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of group runs and actions."""
    clock = Clock()
    monkeypatch.setattr(time, "sleep", clock.sleep)
    monkeypatch.setattr(time, "monotonic", lambda: clock.seconds)
    monkeypatch.setattr(group_run, "now_ms", lambda: round(clock.seconds * 1000))
    return clock


@pytest.fixture
def new_run(tmp_path: Path, clock: Clock) -> Callable[[Plan], GroupRun]:
    """`new_run(plan)`: a group run in a world without brokers."""
    return lambda plan: GroupRun(plan, SceneWorld(tmp_path, clock), run="scene-1", cluster="scene")  # type: ignore[arg-type]
