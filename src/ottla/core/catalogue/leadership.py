"""Which broker leads which partition when several share one process: who takes over when a broker comes, goes or is asked.

Storage is shared by all brokers of a process, so every live replica is in sync. It decides over the catalogue and gives records or a
refusal; it changes nothing itself.
"""

from collections.abc import Container, Sequence

from ottla.core.catalogue.catalogue import Catalogue, Home, Topic
from ottla.core.catalogue.records import NO_LEADER, CatalogueRecord, PartitionChangeRecord
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.errors import ErrorCode


def when_gone(catalogue: Catalogue, broker_id: int) -> list[CatalogueRecord]:
    """A broker has stopped: each partition that it led goes to its first live replica, or to nobody."""
    return [
        _change(topic, number, first_live(topic.homes[number].replicas, catalogue.live_ids), catalogue.live_ids)
        for topic, number in _led_by(catalogue, broker_id)
    ]


def when_back(catalogue: Catalogue, broker_id: int) -> list[CatalogueRecord]:
    """A broker has started: it leads what nobody could lead without it."""
    return [
        _change(topic, number, broker_id, catalogue.live_ids)
        for topic, number in _led_by(catalogue, NO_LEADER)
        if broker_id in topic.homes[number].replicas
    ]


def move(catalogue: Catalogue, name: str, number: int, to: int) -> CatalogueRecord | Refused | None:
    """The record that makes `to` the leader; None when it leads already. One that is no replica takes the present leader's place as one."""
    topic = catalogue.topics.get(name)
    if topic is None or not 0 <= number < len(topic.leaders):
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{number}.")
    if to not in catalogue.broker_ids:
        known = ", ".join(map(str, catalogue.broker_ids))
        return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no broker {to}: the brokers are {known}.")
    if to not in catalogue.live_ids:
        return Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"Broker {to} is stopped: start it before it leads {name}-{number}.")
    leader = topic.leaders[number]
    if leader == to:
        return None
    replicas = topic.homes[number].replicas
    if to in replicas:
        return _change(topic, number, to, catalogue.live_ids)
    replaced = leader if leader in replicas else replicas[-1]
    return _change(topic, number, to, catalogue.live_ids, replicas=tuple(to if each == replaced else each for each in replicas))


def first_live(replicas: Sequence[int], live_ids: Container[int]) -> int:
    """The first replica whose broker runs, NO_LEADER when none does."""
    return next((each for each in replicas if each in live_ids), NO_LEADER)


def in_sync(home: Home, live_ids: Container[int]) -> tuple[int, ...]:
    """The replicas whose brokers run; all of them when none does, since nobody could fall behind."""
    return tuple(each for each in home.replicas if each in live_ids) or home.replicas


def _led_by(catalogue: Catalogue, broker_id: int) -> list[tuple[Topic, int]]:
    return [(topic, number) for topic in catalogue.topics.values() for number, leader in enumerate(topic.leaders) if leader == broker_id]


def _change(
    topic: Topic, number: int, leader: int, live_ids: Container[int], *, replicas: tuple[int, ...] | None = None
) -> PartitionChangeRecord:
    home = topic.homes[number]
    directories = None
    if replicas is not None:
        directories = home.directories or None  # one for each replica, and all of them are the same
        home = Home(replicas, home.directories)
    return PartitionChangeRecord(
        topic_id=topic.topic_id,
        partition=number,
        leader=leader,
        in_sync=in_sync(home, live_ids),
        replicas=replicas,
        directories=directories,
    )
