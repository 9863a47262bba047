"""Members that are lost: frozen, killed, too slow, or silent."""

import time

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.set_up import everyone, set_up
from ottla.testing.incidents.group_run import GroupRun, NotStable
from ottla.testing.incidents.handles import RawHandle
from ottla.testing.incidents.members.raw_consumer import RawConsumer

JOINING_S = 1.5
"""A member that has started has joined by then."""


def kill_and_restart(run: GroupRun) -> None:
    """The actor is killed and started again within its session timeout."""
    actor = run.plan.actor
    set_up(run, everyone(run), alone=[actor])
    session_s = run.settings(actor).session_ms / 1000
    with run.caused(Cause.RESTART_DYNAMIC):
        killed_at = time.monotonic()
        run.members.pop(actor).kill()
        time.sleep(run.random.uniform(0.2, 1.5))
        started = run.start(actor, is_alone=True)
        started.wait_until_started()
        if time.monotonic() - killed_at > session_s - JOINING_S:
            raise NotStable("it was started again too late: its session has ended, which is another cause")
        time.sleep(session_s)  # the session of the dead member ends
        run.wait_stable()
    run.quiet()


def freeze(run: GroupRun) -> None:
    """The actor's process is stopped for longer than its session timeout, and goes on."""
    actor = run.plan.actor
    set_up(run, everyone(run), alone=[actor])
    with run.caused(Cause.EXPIRE_HEARTBEAT):
        run.members[actor].freeze()
        run.wait_stable(without=[actor])
        run.quiet()
    with run.caused(Cause.EXPIRE_HEARTBEAT):
        run.members[actor].thaw()
        run.wait_stable()
        run.quiet()


def kill(run: GroupRun) -> None:
    """The actor is killed and does not come back."""
    actor = run.plan.actor
    set_up(run, everyone(run), alone=[actor])
    with run.caused(Cause.EXPIRE_HEARTBEAT):
        run.members.pop(actor).kill()
        run.wait_stable()
        run.quiet()


def block_event_loop(run: GroupRun) -> None:
    """The actor's event loop is blocked for longer than its session timeout: no heartbeats either."""
    _stuck(run, Cause.EXPIRE_HEARTBEAT, "block", run.settings(run.plan.actor).session_ms / 1000 + run.random.uniform(3, 5))


def slow_poll(run: GroupRun) -> None:
    """The actor works on one poll for longer than max.poll.interval.ms."""
    max_poll_ms = run.random.choice((6_000, 7_000, 8_000))
    run.defaults["max_poll_ms"] = max_poll_ms
    if max_poll_ms < run.settings(0).session_ms:
        run.defaults["session_ms"] = max_poll_ms  # librdkafka refuses a longer session
    # librdkafka on KIP-848 sends no leave: its session has to end as well.
    session_ms = run.settings(0).session_ms if run.plan.protocol == "consumer" else 0
    _stuck(run, Cause.POLL_TIMEOUT, "sleep", (max_poll_ms + session_ms) / 1000 + run.random.uniform(4, 6))


def _stuck(run: GroupRun, cause: str, command: str, seconds: float) -> None:
    actor = run.plan.actor
    set_up(run, everyone(run))
    with run.caused(cause):
        run.members[actor].do(command, seconds=seconds)
        run.wait_stable(without=[actor])
    with run.caused(cause):
        time.sleep(1)
        run.wait_stable()
        run.quiet()


def slow_revocation(run: GroupRun) -> None:
    """Another member joins, and the actor's revocation takes longer than the rebalance timeout."""
    run.defaults |= {"max_poll_ms": 6_000, "session_ms": 6_000, "heartbeat_ms": 1_500}
    actor, newcomer = run.plan.actor, len(run.plan.clients) - 1
    assert actor != newcomer
    set_up(run, [each for each in everyone(run) if each != newcomer])
    run.members[actor].do("slow", seconds=run.random.uniform(10, 12))
    time.sleep(0.5)
    if run.plan.protocol == "consumer":
        with run.caused(Cause.JOIN_NEW, is_action=False):
            run.start(newcomer)
            time.sleep(4)
    with run.caused(Cause.JOIN_TIMEOUT, also={Cause.JOIN_NEW}):
        if newcomer not in run.members:
            run.start(newcomer)
        run.wait_stable(without=[actor])
    with run.caused(Cause.JOIN_TIMEOUT):
        run.wait_stable()
        run.quiet()


def never_sync(run: GroupRun) -> None:
    """A member joins and sends no SyncGroup."""
    run.defaults |= {"max_poll_ms": 6_000, "session_ms": 6_000}
    set_up(run, everyone(run))
    with run.caused(Cause.JOIN_NEW, is_action=False):
        name = f"{run.group}-raw"
        silent = RawHandle(name, RawConsumer(run.world.servers, run.group, run.topics, client_id=name, syncs=False))
        run.members[len(run.plan.clients)] = silent
        time.sleep(4)
    with run.caused(Cause.SYNC_TIMEOUT):
        time.sleep(2)
        run.wait_stable(without=[len(run.plan.clients)])
        run.quiet()
