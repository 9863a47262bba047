"""Which incidents are made: a table of causes and actions, from which a seed makes plans with varying clients and sizes."""

import random
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause
from trials.incidents.group_run import Plan

JAVA, CONFLUENT, KAFKA_PYTHON, AIOKAFKA, RAW = "java", "confluent", "kafka-python", "aiokafka", "raw"
ALL: Final = (JAVA, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)
COOPERATIVE: Final = (JAVA, CONFLUENT)
NEW_PROTOCOL: Final = (JAVA, CONFLUENT)
POLLING: Final = (JAVA, CONFLUENT, KAFKA_PYTHON, AIOKAFKA)
RANGE, STICKY, SERVER = "range", "cooperative-sticky", ""


class Row(NamedTuple):
    """Incidents of one kind: the clients that can be the actor and those of the others, how many on Apache Kafka and on Ottla.

    The assignor SERVER means KIP-848. `size`: the smallest and the largest group.
    """

    cause: str
    action: str
    assignor: str
    actors: tuple[str, ...]
    kafka: int
    ottla: int
    others: tuple[str, ...] | None = None
    size: tuple[int, int] = (2, 4)


STORE_ERROR, BROKER_RESTART = "store_error", "broker_restart"
"""Not of one group alone: they happen to all groups of a wave."""

TABLE: Final = (
    Row(Cause.COLD_START, "cold_start", RANGE, ALL, 4, 4, size=(1, 4)),
    Row(Cause.COLD_START, "cold_start", STICKY, COOPERATIVE, 2, 1, size=(1, 3)),
    Row(Cause.COLD_START, "cold_start", SERVER, NEW_PROTOCOL, 3, 0, size=(1, 3)),
    Row(Cause.JOIN_NEW, "join", RANGE, ALL, 5, 4),
    Row(Cause.JOIN_NEW, "join", SERVER, NEW_PROTOCOL, 3, 0),
    Row(Cause.COOP_FOLLOWUP, "join", STICKY, COOPERATIVE, 6, 4),
    Row(Cause.LEAVE_CLOSE, "close", RANGE, ALL, 4, 4),
    Row(Cause.LEAVE_CLOSE, "close", STICKY, COOPERATIVE, 2, 1),
    Row(Cause.LEAVE_CLOSE, "close", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.LEAVE_CLOSE, "unsubscribe", RANGE, ALL, 4, 2),
    Row(Cause.LEAVE_CLOSE, "unsubscribe", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.RESTART_DYNAMIC, "restart", RANGE, ALL, 4, 4),
    Row(Cause.RESTART_DYNAMIC, "restart", STICKY, COOPERATIVE, 2, 1),
    Row(Cause.RESTART_DYNAMIC, "restart", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.RESTART_DYNAMIC, "rolling_restart", RANGE, ALL, 4, 2, size=(2, 3)),
    Row(Cause.RESTART_DYNAMIC, "rolling_restart", SERVER, NEW_PROTOCOL, 1, 0, size=(2, 3)),
    Row(Cause.RESTART_DYNAMIC, "kill_and_restart", RANGE, ALL, 4, 2),
    Row(Cause.RESTART_DYNAMIC, "kill_and_restart", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.EXPIRE_HEARTBEAT, "freeze", RANGE, ALL, 4, 4),
    Row(Cause.EXPIRE_HEARTBEAT, "freeze", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.EXPIRE_HEARTBEAT, "kill", RANGE, ALL, 4, 2),
    Row(Cause.EXPIRE_HEARTBEAT, "kill", STICKY, COOPERATIVE, 2, 1),
    Row(Cause.EXPIRE_HEARTBEAT, "kill", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.EXPIRE_HEARTBEAT, "block_event_loop", RANGE, (AIOKAFKA,), 2, 1),
    Row(Cause.POLL_TIMEOUT, "slow_poll", RANGE, POLLING, 8, 4),
    Row(Cause.POLL_TIMEOUT, "slow_poll", STICKY, COOPERATIVE, 2, 2),
    Row(Cause.POLL_TIMEOUT, "slow_poll", SERVER, NEW_PROTOCOL, 3, 0),
    Row(Cause.JOIN_TIMEOUT, "slow_revocation", RANGE, (JAVA, KAFKA_PYTHON, AIOKAFKA, CONFLUENT), 6, 4, size=(3, 4)),
    Row(Cause.JOIN_TIMEOUT, "slow_revocation", SERVER, NEW_PROTOCOL, 2, 0, size=(2, 2)),
    Row(Cause.SYNC_TIMEOUT, "never_sync", RANGE, ALL, 6, 3, size=(1, 3)),
    Row(Cause.TOPIC_CHANGE, "add_partitions", RANGE, ALL, 4, 3),
    Row(Cause.TOPIC_CHANGE, "add_partitions", STICKY, COOPERATIVE, 1, 1),
    Row(Cause.TOPIC_CHANGE, "add_partitions", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.TOPIC_CHANGE, "create_matching_topic", RANGE, ALL, 4, 2),
    Row(Cause.TOPIC_CHANGE, "create_matching_topic", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.TOPIC_CHANGE, "delete_topic", RANGE, ALL, 3, 1),
    Row(Cause.SUBSCRIPTION, "subscribe", RANGE, ALL, 4, 3),
    Row(Cause.SUBSCRIPTION, "subscribe", STICKY, COOPERATIVE, 1, 1),
    Row(Cause.SUBSCRIPTION, "subscribe", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.ASSIGNOR_CHANGE, "change_assignor_static", RANGE, (JAVA, CONFLUENT, AIOKAFKA), 4, 3, size=(1, 3)),
    Row(Cause.ASSIGNOR_CHANGE, "change_assignor_dynamic", RANGE, ALL, 3, 1, size=(2, 3)),
    Row(Cause.LEADER_REJOIN_SPURIOUS, "rejoin", RANGE, (RAW,), 4, 3, others=(RAW,), size=(1, 3)),
    Row(Cause.LEADER_REJOIN_SPURIOUS, "subscribe_again", RANGE, (CONFLUENT,), 2, 1, size=(1, 1)),
    Row(Cause.ADMIN, "remove_members", RANGE, ALL, 5, 3, size=(1, 3)),
    Row(Cause.ADMIN, "remove_members", STICKY, COOPERATIVE, 1, 0, size=(2, 3)),
    Row(Cause.ENFORCED, "enforce", RANGE, (JAVA,), 4, 3, size=(1, 3)),
    Row(Cause.ENFORCED, "enforce", STICKY, (JAVA,), 1, 0, size=(2, 2)),
    Row(Cause.MIGRATION, "migrate", RANGE, NEW_PROTOCOL, 6, 0, others=COOPERATIVE, size=(1, 2)),
    Row(Cause.STATIC_REJOIN, "static_rejoin", RANGE, ALL, 4, 3),
    Row(Cause.STATIC_REJOIN, "static_rejoin", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.STATIC_FENCED, "static_fenced", RANGE, (JAVA, CONFLUENT, KAFKA_PYTHON), 4, 3),
    Row(Cause.STATIC_FENCED, "static_fenced", SERVER, NEW_PROTOCOL, 2, 0),
    Row(Cause.STORE_ERROR, STORE_ERROR, RANGE, ALL, 5, 3, size=(2, 3)),
    Row(Cause.CAPACITY, BROKER_RESTART, RANGE, ALL, 5, 3, size=(3, 4)),
    Row(Cause.COORDINATOR_MOVE, BROKER_RESTART, RANGE, ALL, 6, 4, size=(1, 2)),
)
LEADS: Final = frozenset({"rejoin", "enforce"})
"""Actions whose actor is the first member."""


def plans(cluster: str, seed: int, *, actions: Sequence[str] = ()) -> list[Plan]:
    """The incidents of a run on "apache-kafka" or "ottla", all of them or only those of some actions, shuffled."""
    rng = random.Random(seed)
    made: list[Plan] = []
    for row in TABLE:
        for actor in _actors(row, row.kafka if cluster == "apache-kafka" else row.ottla):
            made.append(_plan(row, actor, f"{cluster[0]}{seed}-{len(made) + 1}", rng))
    rng.shuffle(made)
    return [each for each in made if not actions or each.action in actions]


def _actors(row: Row, count: int) -> Iterator[str]:
    return (actor for actor, _ in zip(cycle(row.actors), range(count)))


def _plan(row: Row, actor_client: str, incident: str, rng: random.Random) -> Plan:
    size = rng.randint(*row.size)
    others = row.others or (row.actors if row.assignor != RANGE else ALL)
    actor = 0 if row.action in LEADS else rng.randrange(size)
    if row.action == "slow_revocation":
        actor = rng.randrange(size - 1)  # the last one joins
    clients = [actor_client if position == actor else rng.choice(others) for position in range(size)]
    if row.action == "slow_revocation" and actor_client == AIOKAFKA:
        clients = [AIOKAFKA] * size
    return Plan(
        id=incident,
        cause=row.cause,
        action=row.action,
        protocol="classic" if row.assignor else "consumer",
        assignor=row.assignor,
        clients=tuple(clients),
        actor=actor,
        seed=rng.randrange(1 << 32),
    )
