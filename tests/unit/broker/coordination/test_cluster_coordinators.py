"""The coordinators of all brokers: which broker starts which, and in which partitions deleted topics are kept."""

from types import SimpleNamespace

import pytest

from ottla.broker.coordination.cluster_coordinators import ClusterCoordinators
from ottla.broker.coordination.unserved_deletions import UnservedDeletions
from ottla.core.metadata.topics import CONSUMER_OFFSETS


class Loops:
    """The coordinators of a broker that leads and serves some partitions; notes its calls."""

    def __init__(self, leads: set[int], serves: set[int]) -> None:
        self._leads, self.serves = leads, serves
        self.calls: list[object] = []

    def leads(self, number: int) -> bool:
        return number in self._leads

    def start(self, numbers: list[int]) -> None:
        self.calls.append(("start", numbers))

    def resign(self, number: int) -> None:
        self.calls.append(("resign", number))

    def resign_all(self) -> None:
        self.calls.append("resign_all")

    def forget_topics(self, names: tuple[str, ...]) -> set[int]:
        self.calls.append(("forget", names))
        return self.serves


@pytest.fixture
def unserved() -> UnservedDeletions:
    return UnservedDeletions()


@pytest.fixture
def coordinators(unserved: UnservedDeletions) -> ClusterCoordinators:
    metadata = SimpleNamespace(topics={CONSUMER_OFFSETS: SimpleNamespace(leaders=[1, 2, 1, 2])})
    made = ClusterCoordinators(cluster_metadata=metadata, unserved_deletions=unserved)  # type: ignore[arg-type]
    made.by_broker = {1: Loops({0, 2}, {0}), 2: Loops({1, 3}, {1, 3})}  # type: ignore[dict-item]
    return made


def calls(coordinators: ClusterCoordinators) -> list[list[object]]:
    return [loops.calls for loops in coordinators.by_broker.values()]  # type: ignore[attr-defined]


def test_each_broker_starts_the_coordinators_of_partitions_that_it_leads(coordinators) -> None:
    coordinators.start([0, 1, 2])
    assert calls(coordinators) == [[("start", [0, 2])], [("start", [1])]]


def test_one_or_all_resign(coordinators) -> None:
    coordinators.resign(3)
    coordinators.resign_broker(2)
    coordinators.resign_all()
    assert calls(coordinators) == [[("resign", 3), "resign_all"], [("resign", 3), "resign_all", "resign_all"]]


def test_a_deleted_topic_is_kept_for_partitions_that_are_not_served(coordinators, unserved) -> None:
    coordinators.forget_topic("t")
    assert [unserved.take(number) for number in range(4)] == [(), (), ("t",), ()]


def test_with_the_offsets_topic_all_of_them_are_forgotten(coordinators, unserved) -> None:
    unserved.add(2, "t")
    coordinators._cluster_metadata.topics.clear()
    coordinators.forget_topic(CONSUMER_OFFSETS)
    assert len(unserved) == 0
