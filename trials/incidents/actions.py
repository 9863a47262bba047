"""What happens in an incident: each action starts a group, does one thing to it, and labels what it caused."""

import time
from collections.abc import Callable, Collection

from ottla.history.sources.evidence import Cause
from trials.incidents.corpus import AVOIDED
from trials.incidents.group_run import GroupRun, NotStable
from trials.incidents.handles import RawConsumer, RawHandle

# --- the beginning: all members start, at once or one by one, and become stable


NEW_TOPICS = frozenset({Cause.TOPIC_CHANGE, Cause.LEADER_REJOIN_SPURIOUS})
"""A leader that knew nothing of the topics when it joined may join again."""


def set_up(run: GroupRun, positions: Collection[int], *, alone: Collection[int] = (), one_by_one: bool | None = None) -> None:
    """Start members, all at once or one after the other, and wait until they are stable and some time has passed."""
    run.create_topics()
    waits = run.random.random() < 0.4 if one_by_one is None else one_by_one
    first, *others = positions
    also = {Cause.JOIN_NEW, *NEW_TOPICS} if others and not waits else NEW_TOPICS
    with run.caused(Cause.COLD_START, also=also, is_action=run.plan.action == "cold_start"):
        run.start(first, is_alone=first in alone)
        if not waits:
            for position in others:
                run.start(position, is_alone=position in alone)
        run.wait_stable()
    if waits:
        for position in others:
            with run.caused(Cause.JOIN_NEW, also={Cause.COLD_START, *NEW_TOPICS}, is_action=False):
                run.start(position, is_alone=position in alone)
                run.wait_stable()
    run.quiet()


def everyone(run: GroupRun) -> range:
    """All places of the plan."""
    return range(len(run.plan.clients))


def set_up_static(run: GroupRun) -> None:
    """Start all members at once, each with an instance id."""
    run.create_topics()
    with run.caused(Cause.COLD_START, also={Cause.JOIN_NEW, *NEW_TOPICS}, is_action=False):
        for position in everyone(run):
            run.start(position, instance_id=instance_id(run, position))
        run.wait_stable()
    run.quiet()


def instance_id(run: GroupRun, position: int) -> str:
    """The instance id of the member at this place."""
    return f"{run.group}-instance-{position + 1}"


# --- members come, go and come back on purpose


def cold_start(run: GroupRun) -> None:
    """The first members of a group start."""
    set_up(run, everyone(run), one_by_one=False)


def join(run: GroupRun) -> None:
    """The actor joins the others."""
    actor = run.plan.actor
    set_up(run, [each for each in everyone(run) if each != actor])
    with run.caused(Cause.JOIN_NEW):
        run.start(actor)
        run.wait_stable()
        run.quiet()


def close(run: GroupRun) -> None:
    """The actor closes."""
    set_up(run, everyone(run))
    with run.caused(Cause.LEAVE_CLOSE):
        run.members.pop(run.plan.actor).close()
        run.wait_stable()
        run.quiet()


def unsubscribe(run: GroupRun) -> None:
    """The actor unsubscribes and lives on."""
    set_up(run, everyone(run))
    with run.caused(Cause.LEAVE_CLOSE):
        run.members[run.plan.actor].do("unsubscribe")
        run.wait_stable(without=[run.plan.actor])
        run.quiet()


def restart(run: GroupRun) -> None:
    """The actor closes and starts again."""
    set_up(run, everyone(run))
    _restart(run, run.plan.actor, wait_between=run.random.random() < 0.5)
    run.quiet()


def rolling_restart(run: GroupRun) -> None:
    """Each member closes and starts again, one after the other."""
    set_up(run, everyone(run))
    for position in everyone(run):
        _restart(run, position, wait_between=False)
        run.quiet()


def _restart(run: GroupRun, position: int, *, wait_between: bool) -> None:
    with run.caused(Cause.RESTART_DYNAMIC):
        run.members.pop(position).close()
        if wait_between:
            run.wait_stable()
        time.sleep(run.random.uniform(0.2, 1.5))
        run.start(position)
        run.wait_stable()


def change_assignor_dynamic(run: GroupRun) -> None:
    """Dynamic members; the actor restarts with another assignor only."""
    run.defaults["assignors"] = ("range", "roundrobin")
    set_up(run, everyone(run))
    with run.caused(Cause.RESTART_DYNAMIC, is_action=False):
        run.members.pop(run.plan.actor).close()
        run.wait_stable()
        run.quiet()
    with run.caused(Cause.ASSIGNOR_CHANGE, also={Cause.RESTART_DYNAMIC}):
        run.start(run.plan.actor, assignors=("roundrobin",))
        run.wait_stable()
        run.quiet()


def remove_members(run: GroupRun) -> None:
    """An administrator removes all members, which come back by themselves."""
    set_up(run, everyone(run))
    with run.caused(Cause.ADMIN):
        run.world.remove_all_members(run.group, run.random.choice((None, None, "drain", "stuck since noon")))
        run.quiet(3, 4)
        run.wait_stable()


def migrate(run: GroupRun) -> None:
    """A member of the new protocol joins a classic group, and leaves it."""
    newcomer = len(run.plan.clients)
    set_up(run, everyone(run))
    with run.caused(Cause.MIGRATION):
        run.start(newcomer, protocol="consumer")
        run.wait_stable()
        run.quiet()
    with run.caused(Cause.MIGRATION):
        run.members.pop(newcomer).close()
        run.wait_stable()
        run.quiet()


# --- members are lost: frozen, killed, too slow, or silent


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


# --- the members stay, and topics or subscriptions change, or nothing does


def add_partitions(run: GroupRun) -> None:
    """A subscribed topic gets partitions."""
    set_up(run, everyone(run))
    topic, count = next(iter(run.topics.items()))
    with run.caused(Cause.TOPIC_CHANGE):
        run.topics[topic] = count + run.random.randint(1, 3)
        run.world.add_partitions(topic, run.topics[topic])
        run.wait_stable()
        run.quiet()


def create_matching_topic(run: GroupRun) -> None:
    """A topic is created that matches the pattern of all members."""
    run.defaults |= {"pattern": f"{run.group}[.].*", "topics": ()}
    set_up(run, everyone(run))
    with run.caused(Cause.TOPIC_CHANGE):
        run.topics[f"{run.group}.more"] = run.random.randint(1, 3)
        run.world.create_topic(f"{run.group}.more", run.topics[f"{run.group}.more"])
        run.wait_stable()
        run.quiet()


def delete_topic(run: GroupRun) -> None:
    """One of two subscribed topics is deleted. Nothing is committed: Java's members would try to commit the deleted one for a minute."""
    run.defaults["commits"] = False
    doomed = f"{run.group}.old"
    run.topics[doomed] = 2
    set_up(run, everyone(run))
    with run.caused(Cause.TOPIC_CHANGE):
        del run.topics[doomed]
        run.world.delete_topic(doomed)
        run.wait_stable()
        run.quiet(3, 4)


def subscribe(run: GroupRun) -> None:
    """The actor subscribes to one topic more."""
    more = f"{run.group}.more"
    set_up(run, everyone(run))
    run.world.create_topic(more, 2)
    run.quiet()
    with run.caused(Cause.SUBSCRIPTION):
        run.topics[more] = 2
        run.members[run.plan.actor].do("subscribe", topics=list(run.topics))
        run.wait_stable()
        run.quiet()


def subscribe_again(run: GroupRun) -> None:
    """The actor (librdkafka) subscribes to the topics that it has."""
    set_up(run, everyone(run))
    with run.caused(Cause.LEADER_REJOIN_SPURIOUS):
        run.members[run.plan.actor].do("subscribe", topics=list(run.topics))
        run.quiet(2, 3)
        run.wait_stable()


def rejoin(run: GroupRun) -> None:
    """The leader (bare requests) joins again with nothing changed."""
    set_up(run, everyone(run))
    with run.caused(Cause.LEADER_REJOIN_SPURIOUS):
        run.members[0].do("rejoin")
        run.quiet(2, 3)
        run.wait_stable()


def enforce(run: GroupRun) -> None:
    """The leader (Java) asks for a rebalance."""
    set_up(run, everyone(run), one_by_one=True)
    with run.caused(Cause.ENFORCED):
        run.members[0].do("enforce", reason=run.random.choice((None, "rebalance enforced by operations")))
        run.quiet(2, 3)
        run.wait_stable()


# --- static members


def change_assignor_static(run: GroupRun) -> None:
    """Static members; the actor restarts with another assignor first."""
    run.defaults |= {"session_ms": 10_000, "assignors": ("range", "roundrobin")}
    set_up_static(run)
    with run.caused(Cause.ASSIGNOR_CHANGE):
        run.members.pop(run.plan.actor).close()
        run.start(run.plan.actor, assignors=("roundrobin",), instance_id=instance_id(run, run.plan.actor))
        run.wait_stable()
        run.quiet()


def static_rejoin(run: GroupRun) -> None:
    """A static member restarts within its session timeout."""
    run.defaults["session_ms"] = 12_000
    set_up_static(run)
    actor = run.plan.actor
    with run.caused(Cause.STATIC_REJOIN, kind=AVOIDED):
        handle = run.members.pop(actor)
        handle.kill() if run.plan.actor_client != "java" and run.random.random() < 0.4 else handle.close()
        time.sleep(run.random.uniform(0.2, 1.5))
        run.start(actor, instance_id=instance_id(run, actor))
        run.wait_stable()
        run.quiet()


def static_fenced(run: GroupRun) -> None:
    """A second process uses the instance id of the actor, which lives on."""
    run.defaults["session_ms"] = 12_000
    set_up_static(run)
    second = len(run.plan.clients)
    with run.caused(Cause.STATIC_FENCED, kind=AVOIDED):
        run.start(second, instance_id=instance_id(run, run.plan.actor), client=run.plan.actor_client)
        run.quiet(5, 6)


Action = Callable[[GroupRun], None]

ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        cold_start,
        join,
        close,
        unsubscribe,
        restart,
        rolling_restart,
        change_assignor_dynamic,
        remove_members,
        migrate,
        kill_and_restart,
        freeze,
        kill,
        block_event_loop,
        slow_poll,
        slow_revocation,
        never_sync,
        add_partitions,
        create_matching_topic,
        delete_topic,
        subscribe,
        subscribe_again,
        rejoin,
        enforce,
        change_assignor_static,
        static_rejoin,
        static_fenced,
    )
}
OWN_JVM = frozenset({"freeze", "kill", "kill_and_restart"})
"""Actions whose actor must have a process of its own."""
