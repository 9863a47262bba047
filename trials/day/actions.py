"""What is done on a day: forty kinds of actions, each with what an operator should read about it."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Position

from ottla.history.sources.evidence import Cause
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient
from trials.day.groups import AIOKAFKA, CONFLUENT, MAX_POLL_MS, SESSION_MS
from trials.day.kinds import Kind, Run, has_range, has_two_assignors, is_dynamic, is_dynamic_classic, is_static, is_static_classic
from trials.day.members import Member
from trials.incidents.handles import RawConsumer

SESSION_S, MAX_POLL_S = SESSION_MS / 1000, MAX_POLL_MS / 1000
FAILED_JOIN: Final = "FAILED_JOIN"
BROKER_OUTAGE: Final = "BROKER_OUTAGE"
"""Not causes of rebalances; what an operator should read where a member cannot join, and where a broker does not answer."""
EXPIRED: Final = (Cause.EXPIRE_HEARTBEAT,)
KILLED: Final = (Cause.EXPIRE_HEARTBEAT, Cause.RESTART_DYNAMIC)
"""Of the return of a process that was killed: it has the cause of its loss, or is told as the restart that it is."""
RESTARTED: Final = (Cause.RESTART_DYNAMIC,)
CLOSED: Final = (Cause.LEAVE_CLOSE, Cause.RESTART_DYNAMIC)
"""Of a member that left and came back later."""
OF_BROKER: Final = (BROKER_OUTAGE, Cause.COORDINATOR_MOVE)

KINDS: Final[dict[str, Kind]] = {}
Act = Callable[[Run], None]


def kind(incident: str, **more: Any) -> Callable[[Act], Act]:
    """Register an action of this incident by its name; `more`: fields of its kind."""

    def register(act: Act) -> Act:
        KINDS[act.__name__] = Kind(name=act.__name__, incident=incident, act=act, **more)
        return act

    return register


# --- members that are restarted


@kind("restart", planned=True, suits=is_dynamic)
def restart(run: Run) -> None:
    """A member is closed and started again."""
    with run.causing(*RESTARTED):
        run.actor.close()
        run.between(0.2, 2)
        run.actor.start()


@kind("rolling restart", planned=True, suits=is_dynamic, is_of_group=True)
def rolling_restart(run: Run) -> None:
    """All members, one after the other."""
    with run.causing(*RESTARTED):
        for member in run.actors:
            member.close()
            run.between(0.2, 1)
            member.start()
            run.group.wait_until_divided(6)


@kind("rolling restart, incomplete", planned=True, suits=is_dynamic, is_of_group=True, members_min=3)
def rolling_restart_incomplete(run: Run) -> None:
    """The second one does not come back, and the deployment stops there."""
    first, second, *_ = run.actors
    with run.causing(*RESTARTED):
        first.close()
        run.between(0.2, 1)
        first.start()
    with run.causing(Cause.LEAVE_CLOSE):
        second.close()


@kind("rolling restart", planned=True, suits=is_dynamic, is_of_group=True)
def rolling_restart_with_surge(run: Run) -> None:
    """A new member is there before each old one goes: pods with new names."""
    for member in run.actors[:3]:
        with run.causing(Cause.JOIN_NEW, settle_s=0):
            run.group.new_member(member.settings.client).start()
            run.between(1, 2)
        with run.causing(Cause.LEAVE_CLOSE, also=(Cause.JOIN_NEW,), settle_s=0):
            member.close()
            run.between(0.5, 1.5)
    with run.causing(Cause.LEAVE_CLOSE, is_required=False):
        run.between(0, 0.1)


@kind("crash loop", suits=is_dynamic)
def crash_loop(run: Run) -> None:
    """A member dies soon after each of its starts."""
    with run.causing(*RESTARTED, also=EXPIRED):
        for _ in range(3):
            run.actor.kill()
            run.between(0.3, 1.5)
            run.actor.start()
            run.between(2, 4)
        time.sleep(SESSION_S)


@kind("crash", suits=is_dynamic)
def kill_and_restart_at_once(run: Run) -> None:
    """A member is killed and started again within its session timeout."""
    with run.causing(*RESTARTED, also=EXPIRED):
        run.actor.kill()
        run.between(0.2, 1.5)
        run.actor.start()
        time.sleep(SESSION_S)


@kind("crash")
def kill_and_restart_late(run: Run) -> None:
    """A member is killed and started again after its session has ended."""
    with run.causing(*EXPIRED):
        run.actor.kill()
        time.sleep(SESSION_S + 1)
    with run.causing(*KILLED, is_required=False):
        run.actor.start()


@kind("crash", members_min=3)
def kill(run: Run) -> None:
    """A member is killed and stays away."""
    with run.causing(*EXPIRED):
        run.actor.kill()
        time.sleep(SESSION_S + 1)


@kind("restart", planned=True, suits=is_dynamic)
def replace_pod(run: Run) -> None:
    """A member is closed; another one with another client id takes its place."""
    with run.causing(Cause.RESTART_DYNAMIC, Cause.LEAVE_CLOSE, also=(Cause.JOIN_NEW,)):
        run.actor.close()
        run.between(0.5, 2)
        run.group.new_member(run.actor.settings.client).start()


@kind("crash", suits=is_dynamic)
def kill_and_replace_pod(run: Run) -> None:
    """A member is killed; another one with another client id takes its place."""
    with run.causing(*EXPIRED, also=(Cause.JOIN_NEW, Cause.RESTART_DYNAMIC)):
        run.actor.kill()
        run.between(0.5, 2)
        run.group.new_member(run.actor.settings.client).start()
        time.sleep(SESSION_S)


# --- members that do not answer in time


@kind("slow consumer", suits=is_dynamic)
def block_poll(run: Run) -> None:
    """A member works on one poll for longer than max.poll.interval.ms."""
    session_s = 0 if run.group.is_classic else SESSION_S
    with run.causing(Cause.POLL_TIMEOUT):
        run.actor.do("sleep", seconds=MAX_POLL_S + session_s + 3)
        time.sleep(MAX_POLL_S + session_s + 3.5)


@kind("slow consumer", suits=is_dynamic)
def slow_consumer(run: Run) -> None:
    """A member is too slow again and again."""
    session_s = 0 if run.group.is_classic else SESSION_S
    with run.causing(Cause.POLL_TIMEOUT):
        for _ in range(2):
            run.actor.do("sleep", seconds=MAX_POLL_S + session_s + 2)
            time.sleep(MAX_POLL_S + session_s + 5)


@kind("pause", clients=(AIOKAFKA,))
def block_event_loop(run: Run) -> None:
    """An event loop is blocked for longer than the session timeout: no heartbeats either."""
    with run.causing(*EXPIRED):
        run.actor.do("block", seconds=SESSION_S + 3)
        time.sleep(SESSION_S + 4)


@kind("pause")
def pause(run: Run) -> None:
    """A process stops for longer than its session timeout, as in a long collection of garbage."""
    with run.causing(*EXPIRED):
        run.actor.freeze()
        time.sleep(SESSION_S + run.rng.uniform(1.5, 4))
        run.actor.thaw()
        time.sleep(1)


@kind("none")
def pause_shortly(run: Run) -> None:
    """A process stops for half its session timeout."""
    with run.causing(is_required=False):
        run.actor.freeze()
        time.sleep(SESSION_S / 2)
        run.actor.thaw()


@kind("slow consumer", suits=has_range)
def slow_revocation(run: Run) -> None:
    """A member joins, and the revocation of another takes longer than the rebalance timeout."""
    run.actor.do("slow", seconds=MAX_POLL_S + 3)
    with run.causing(Cause.JOIN_TIMEOUT, Cause.POLL_TIMEOUT, also=(Cause.JOIN_NEW,)):  # the poll that waits is too long as well
        run.group.new_member().start()
        time.sleep(MAX_POLL_S + 4)


@kind("failed sync", suits=has_range, actors=0)
def never_sync(run: Run) -> None:
    """A member joins and sends no SyncGroup."""
    name = f"{run.group.name}-silent"
    with run.causing(Cause.SYNC_TIMEOUT, also=(Cause.JOIN_NEW,)):
        silent = RawConsumer(run.world.servers, run.group.name, run.group.topics, client_id=name, syncs=False)
        time.sleep(11)
        silent.close()


# --- static members


@kind("restart", planned=True, suits=is_static)
def restart_static(run: Run) -> None:
    """A static member is closed and started again within its session timeout."""
    with run.causing(Cause.STATIC_REJOIN):
        run.actor.close()
        run.between(0.2, 1.5)
        run.actor.start()


@kind("crash", suits=is_static_classic)
def kill_static_and_restart(run: Run) -> None:
    """A static member is killed and started again within its session timeout."""
    with run.causing(Cause.STATIC_REJOIN):
        run.actor.kill()
        run.between(0.2, 1.5)
        run.actor.start()


@kind("crash", suits=lambda group: group.kind.is_static and not group.is_classic)
def kill_static_and_restart_too_early(run: Run) -> None:
    """The same in the consumer protocol: the broker refuses the new process as long as the session of the old one lasts."""
    with run.causing(FAILED_JOIN, settle_s=0):
        run.actor.kill()
        run.between(0.2, 1.5)
        run.actor.start()
        time.sleep(2.5)
    with run.causing(*EXPIRED, also=(FAILED_JOIN,)):
        time.sleep(SESSION_S)
    with run.causing(*KILLED, is_required=False):
        run.actor.kill()
        run.actor.start()


@kind("crash", suits=is_static)
def kill_static_and_restart_late(run: Run) -> None:
    """A static member is killed and comes back after its session has ended."""
    with run.causing(*EXPIRED):
        run.actor.kill()
        time.sleep(SESSION_S + 2)
    with run.causing(*KILLED, is_required=False):
        run.actor.start()


@kind("duplicate instance id", suits=is_static_classic)
def start_duplicate(run: Run) -> None:
    """A second process uses the instance id of a member that lives on."""
    twin = run.group.new_member(run.actor.settings.client, instance_id=run.actor.settings.instance_id)
    with run.causing(Cause.STATIC_FENCED, also=(Cause.STATIC_REJOIN,), settle_s=0):
        twin.start()
        time.sleep(4)
    with run.causing(Cause.STATIC_FENCED, Cause.STATIC_REJOIN, Cause.EXPIRE_HEARTBEAT, is_required=False):
        twin.kill()
        run.actor.kill()
        run.actor.start()


@kind("deployment", planned=True, suits=is_static_classic)
def change_assignor_static(run: Run) -> None:
    """A static member restarts with one of the two assignors only."""
    # Where another one has changed the assignor before, it only comes back.
    with run.causing(Cause.ASSIGNOR_CHANGE, also=(Cause.STATIC_REJOIN,)):
        run.actor.close()
        run.between(0.2, 1)
        run.actor.start(assignors=("roundrobin",))
    with run.causing(Cause.ASSIGNOR_CHANGE, Cause.STATIC_REJOIN, is_required=False):
        run.actor.close()
        run.between(0.2, 1)
        run.actor.start(assignors=run.group.kind.assignors)


# --- groups that grow, shrink and change


@kind("scaling", planned=True, actors=0)
def scale_up(run: Run) -> None:
    """One or two members are added."""
    with run.causing(Cause.JOIN_NEW):
        for _ in range(run.rng.randint(1, 2)):
            run.group.new_member().start()


@kind("scaling", planned=True, members_min=3, suits=is_dynamic)
def scale_down(run: Run) -> None:
    """A member is closed and stays away."""
    with run.causing(Cause.LEAVE_CLOSE):
        run.actor.close()


@kind("scaling", planned=True, members_min=3, suits=lambda group: is_dynamic(group) and not group.kind.has_pattern)
def unsubscribe(run: Run) -> None:
    """A member unsubscribes and lives on; later it subscribes again."""
    with run.causing(*CLOSED):
        run.actor.do("unsubscribe")
        run.between(3, 4)
    with run.causing(*RESTARTED, Cause.SUBSCRIPTION):
        run.actor.do("subscribe", topics=list(run.actor.settings.topics))


@kind("subscription", planned=True, suits=lambda group: not group.kind.has_pattern and len(group.topics) < 3)
def subscribe_to_more(run: Run) -> None:
    """A member subscribes to one topic more."""
    more = f"{run.group.name}.more{len(run.group.topics)}"
    run.world.create_topic(more, 2)
    run.between(0.5, 1)
    with run.causing(Cause.SUBSCRIPTION):
        run.group.topics[more] = 2
        run.actor.settings = replace(run.actor.settings, topics=tuple(run.group.topics))
        run.actor.do("subscribe", topics=list(run.group.topics))
        time.sleep(1.5)


@kind("rejoins", suits=lambda group: group.is_classic and not group.kind.has_pattern and len(group.topics) == 1, clients=(CONFLUENT,))
def subscribe_again(run: Run) -> None:
    """A member subscribes to what it has."""
    with run.causing(Cause.LEADER_REJOIN_SPURIOUS, is_required=False):
        run.actor.do("subscribe", topics=list(run.group.topics))
        time.sleep(2)


@kind("deployment", planned=True, suits=has_two_assignors)
def join_with_other_assignor(run: Run) -> None:
    """A member joins that has only the second one of the group's assignors; then it leaves."""
    newcomer = run.group.new_member(assignors=run.group.kind.assignors[1:])
    with run.causing(Cause.ASSIGNOR_CHANGE, also=(Cause.JOIN_NEW,)):
        newcomer.start()
        time.sleep(2)
    with run.causing(Cause.ASSIGNOR_CHANGE, Cause.LEAVE_CLOSE):
        newcomer.close()


@kind("reassignment storm", suits=has_two_assignors, actors=0)
def join_again_and_again(run: Run) -> None:
    """Two members join that send a JoinGroup for each of their assignors, and so disturb each other without end, until they go."""
    with run.causing(Cause.LEADER_REJOIN_SPURIOUS, Cause.ASSIGNOR_CHANGE, also=(Cause.JOIN_NEW, Cause.LEAVE_CLOSE)):
        newcomers = [run.group.new_member(AIOKAFKA) for _ in range(2)]
        for member in newcomers:
            member.start()
        time.sleep(8)
        for member in newcomers:
            member.close()


@kind("failed join", suits=is_dynamic_classic, actors=0)
def join_with_unshared_assignor(run: Run) -> None:
    """A member has an assignor that nobody shares: it cannot join."""
    assignors = ("range",) if "range" not in run.group.kind.assignors else ("cooperative-sticky",)
    newcomer = run.group.new_member(CONFLUENT, assignors=assignors)
    with run.causing(FAILED_JOIN):
        newcomer.start()
        time.sleep(5)
        newcomer.kill()


# --- topics


@kind("topic change", planned=True, actors=0)
def add_partitions(run: Run) -> None:
    """A topic gets partitions."""
    with run.causing(Cause.TOPIC_CHANGE):
        _add_partitions(run)
        time.sleep(2)


@kind("topic change", planned=True, suits=is_dynamic, members_min=3)
def add_partitions_while_away(run: Run) -> None:
    """A topic gets partitions while a member is away."""
    with run.causing(Cause.RESTART_DYNAMIC, also=(Cause.TOPIC_CHANGE,)):
        run.actor.close()
        run.between(1, 2)
        _add_partitions(run)
        run.between(0.5, 2)
        run.actor.start()


def _add_partitions(run: Run) -> None:
    topic = next(iter(run.group.topics))
    run.world.add_partitions(topic, run.rng.randint(1, 2))
    run.group.topics[topic] = run.world.topics[topic]


@kind("topic change", planned=True, actors=0, suits=lambda group: group.kind.has_pattern)
def create_matching_topic(run: Run) -> None:
    """A topic is created that matches the pattern of the members."""
    topic = f"{run.group.name}.more{len(run.group.topics)}"
    with run.causing(Cause.TOPIC_CHANGE):
        run.world.create_topic(topic, 2)
        run.group.topics[topic] = 2
        time.sleep(2.5)


# --- administrators


def _remove(run: Run, members: Sequence[Member], reason: str | None) -> None:
    with run.world.group_admin() as admin:
        described = admin.describe_groups([run.group.name])[run.group.name]
        ids = {member.client_id: member.member_id for member in getattr(described, "members", ())}
    identities = [{"member_id": ids[each.name], "reason": reason} for each in members if each.name in ids]
    with RawClient(run.world.servers, client_id="admin") as client:
        # Java's Admin always has a reason (version 5), older programs have none.
        client.call(ApiKey.LEAVE_GROUP, 4 if reason is None else 5, group_id=run.group.name, members=identities)


@kind("administrator", planned=True, suits=is_dynamic_classic)
def remove_member(run: Run) -> None:
    """An administrator removes a member without a reason; it comes back by itself."""
    with run.causing(Cause.ADMIN):
        _remove(run, run.actors, None)
        time.sleep(3)


@kind("administrator", planned=True, suits=is_dynamic_classic)
def remove_member_with_reason(run: Run) -> None:
    """The same with a reason."""
    with run.causing(Cause.ADMIN):
        _remove(run, run.actors, "member was removed by an admin: stuck since noon")
        time.sleep(3)


@kind("administrator", planned=True, suits=is_dynamic_classic, is_of_group=True)
def remove_all_members(run: Run) -> None:
    """An administrator removes all members, which come back by themselves."""
    with run.causing(Cause.ADMIN, also=(Cause.COLD_START,)):
        _remove(run, run.actors, "member was removed by an admin")
        time.sleep(4)


def _stop_all(run: Run) -> None:
    # Static members do not leave: their sessions end, which no log but theirs tells from a crash. All come back: a restart, too.
    with run.causing(*CLOSED, settle_s=0):
        for member in run.actors:
            member.close()
        time.sleep(1 if is_dynamic(run.group) else SESSION_S + 2)


def _start_all(run: Run) -> None:
    with run.causing(Cause.COLD_START, Cause.RESTART_DYNAMIC):
        for member in run.actors:
            member.start()


@kind("stop of a group", planned=True, is_of_group=True)
def stop_and_start_all(run: Run) -> None:
    """All members are closed, and later started again."""
    _stop_all(run)
    run.between(0.5, 2)
    _start_all(run)


@kind("administrator", planned=True, is_of_group=True)
def reset_offsets(run: Run) -> None:
    """All members are closed, the offsets set to the beginning, and the members started again."""
    _stop_all(run)
    positions = [Position(topic, number, 0) for topic, count in run.group.topics.items() for number in range(count)]
    with suppress(KafkaException):  # where a session has not ended yet
        run.world.ask(lambda: run.world.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(run.group.name, positions)]))
    _start_all(run)


@kind("administrator", planned=True, is_of_group=True, suits=is_dynamic)
def delete_group(run: Run) -> None:
    """All members are closed, the group is deleted, and the members start again."""
    _stop_all(run)
    with suppress(KafkaException):
        run.world.ask(lambda: run.world.admin.delete_consumer_groups([run.group.name]))
    _start_all(run)


# --- networks and brokers


@kind("network", is_behind_proxy=True)
def cut_network(run: Run) -> None:
    """What is behind the proxy is cut off for longer than the session timeout."""
    with run.causing(*EXPIRED):
        run.world.proxy.cut()
        time.sleep(SESSION_S + run.rng.uniform(2, 4))
        run.world.proxy.mend()
        time.sleep(1)


@kind("none", is_behind_proxy=True)
def cut_network_shortly(run: Run) -> None:
    """What is behind the proxy is cut off for half the session timeout."""
    with run.causing(is_required=False):
        run.world.proxy.cut()
        time.sleep(SESSION_S / 2)
        run.world.proxy.mend()


@kind("mass loss", suits=is_dynamic, actors=2, members_min=3)
def lose_node(run: Run) -> None:
    """Two members of a group are killed at once, and started again later."""
    with run.causing(*EXPIRED):
        for member in run.actors:
            member.kill()
        time.sleep(SESSION_S + 1.5)
    with run.causing(*KILLED, is_required=False):
        for member in run.actors:
            member.start()


@kind("broker outage", planned=True, is_of_broker=True)
def restart_broker(run: Run) -> None:
    """The broker is stopped in order and started again."""
    with run.causing(*OF_BROKER, also=(Cause.LEADER_REJOIN_SPURIOUS,), is_required=False):
        run.world.broker.stop()
        run.world.broker.start()
        time.sleep(4)


@kind("broker outage", is_of_broker=True)
def kill_broker(run: Run) -> None:
    """The broker is killed and started again."""
    with run.causing(*OF_BROKER, also=(Cause.LEADER_REJOIN_SPURIOUS,), is_required=False):
        run.world.broker.kill()
        run.between(0.5, 2)
        run.world.broker.start()
        time.sleep(4)


@kind("broker outage", is_of_broker=True)
def stall_broker(run: Run) -> None:
    """The broker stops for longer than the session timeout, and goes on."""
    with run.causing(*OF_BROKER, is_required=False):
        run.world.stall(SESSION_S + run.rng.uniform(2, 5))
        time.sleep(5)
