"""The demo's incidents, in order. Each does one thing to the group and returns when the group is stable again.

Incidents are driven by what the group's events show, never by the clock. They know the scene and nothing of how it is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.cli.demo.scene import PARTITIONS, PARTITIONS_AFTER, Scene

NAMES = ONE, TWO, THREE = "consumer-1", "consumer-2", "consumer-3"


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happens: how it is announced, and how it is played."""

    title: str
    play: Callable[[Scene], None]


def start_one(scene: Scene) -> None:
    """The first member: it gets everything."""
    scene.consumers.start(ONE)
    scene.wait_until_settled(ONE)
    scene.let_work()


def scale_out(scene: Scene) -> None:
    """Two more."""
    scene.consumers.start(TWO)
    scene.consumers.start(THREE)
    scene.wait_until_settled(ONE, TWO, THREE)
    scene.let_work()


def freeze_one(scene: Scene) -> None:
    """Like a long garbage collection, a paused virtual machine, a laptop's lid: no heartbeats, and no idea of it afterwards."""
    before = scene.triggers_seen
    scene.consumers.freeze(TWO)
    scene.wait_for_trigger(TWO, "EXPIRE_HEARTBEAT", since=before, what=f"the session of the frozen {TWO} to expire")
    scene.wait_until_settled(ONE, THREE)
    scene.consumers.thaw(TWO)
    scene.wait_until_settled(ONE, TWO, THREE)
    scene.let_work()


def make_one_slow(scene: Scene) -> None:
    """Heartbeats continue in the background; the client notices the missing poll and leaves. It comes back with its next poll."""
    before = scene.triggers_seen
    scene.consumers.make_slow(THREE)
    scene.wait_for_trigger(THREE, "LEAVE", "POLL_TIMEOUT", since=before, what=f"the slow {THREE} to miss its poll interval")
    scene.wait_until_settled(ONE, TWO)
    scene.wait_until_settled(ONE, TWO, THREE)
    scene.let_work()


def close_one(scene: Scene) -> None:
    """A clean close: commits, leaves, and no timeout passes."""
    before = scene.triggers_seen
    close(scene, ONE)
    scene.wait_for_trigger(ONE, "LEAVE", since=before, what=f"{ONE} to leave")
    scene.wait_until_settled(TWO, THREE)
    scene.let_work()


def add_partitions(scene: Scene) -> None:
    """The members find out when they next refresh their metadata."""
    scene.add_partitions(PARTITIONS_AFTER)
    scene.wait_until_settled(TWO, THREE)
    scene.let_work()


def run_out(scene: Scene) -> None:
    """The rest of the year at full speed, until every flight is committed; then all consumers close."""
    seconds_max = scene.timing.run_out_seconds_max
    scene.release()
    scene.wait_for("the rest of the year to be replayed", lambda: scene.replay.is_done, seconds_max=seconds_max)
    scene.wait_for("every flight to be committed", lambda: scene.committed >= scene.flights_total, seconds_max=seconds_max)
    for name in (TWO, THREE):
        close(scene, name)


def close(scene: Scene, name: str) -> None:
    """Ask a consumer to close, and see it end."""
    scene.consumers.ask_to_close(name)
    scene.wait_for(f"{name} to close", lambda: scene.consumers.has_ended(name))
    scene.consumers.take_leave(name)


INCIDENTS = (
    Incident(f"{ONE} starts and gets all {PARTITIONS} partitions", start_one),
    Incident(f"scale out: {TWO} and {THREE} join", scale_out),
    Incident(f"{TWO} is frozen (SIGSTOP) past its session timeout, and thawed", freeze_one),
    Incident(f"{THREE} is too slow for its max.poll.interval.ms, and comes back", make_one_slow),
    Incident(f"{ONE} is closed cleanly", close_one),
    Incident(f"the topic grows from {PARTITIONS} to {PARTITIONS_AFTER} partitions", add_partitions),
    Incident("the rest of the year at full speed; then all consumers close", run_out),
)
