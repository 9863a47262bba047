"""The members stay, and something else changes: topics, subscriptions, or nothing."""

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.set_up import everyone, set_up
from ottla.testing.incidents.group_run import GroupRun


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
