"""One scripted session that every client library plays with each of its assignors: what most programs do with a group."""

from collections.abc import Callable
from typing import Any

from ottla.testing.waiting import wait_until

PARTITIONS = 4
EVERY_PARTITION = set(range(PARTITIONS))


class Reader:
    """Members of one group, polled in turn; remembers what each poll brought."""

    def __init__(self) -> None:
        self.members: list[Any] = []
        self.received: list[tuple[int, int, bytes]] = []

    def poll(self) -> None:
        for member in self.members:
            self.received += member.poll()

    def take(self) -> list[tuple[int, int, bytes]]:
        """What came since the last call: (partition, offset, value), sorted."""
        taken, self.received = sorted(self.received), []
        return taken

    def is_divided(self) -> bool:
        """Every partition has exactly one owner, and no member is idle."""
        shares = [{partition for _, partition in member.assignment()} for member in self.members]
        return all(shares) and sum(map(len, shares)) == PARTITIONS and set().union(*shares) == EVERY_PARTITION


def numbered(first: int, count: int) -> list[tuple[int, bytes]]:
    """(partition, value) of records that go round the partitions."""
    return [(number % PARTITIONS, b"record-%d" % number) for number in range(first, first + count)]


def placed(first: int, count: int) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) where the records of `numbered` must be, sorted."""
    return sorted((number % PARTITIONS, number // PARTITIONS, b"record-%d" % number) for number in range(first, first + count))


def test_a_group_shares_rebalances_commits_and_resumes_elsewhere(
    library_and_assignor: tuple[Any, str], unique_name: Callable[[str], str]
) -> None:
    library, assignor = library_and_assignor
    topic, group = unique_name("topic"), unique_name("group")
    library.create_topic(topic, PARTITIONS)
    library.produce(topic, numbered(0, 1000))
    reader = Reader()

    first = library.member(group, topic, assignor)
    reader.members = [first]
    wait_until(lambda: len(reader.received) >= 1000, "the first member reads everything", reader.poll)
    assert reader.take() == placed(0, 1000)
    first.commit()

    second = library.member(group, topic, assignor)
    reader.members = [first, second]
    wait_until(reader.is_divided, "both members own some", reader.poll)
    assert [len(member.assignment()) for member in reader.members] == [2, 2]
    library.produce(topic, numbered(1000, 400))
    wait_until(lambda: len(reader.received) >= 400, "both members read", reader.poll)
    assert reader.take() == placed(1000, 400), "every record once: the second member begins where the first has committed"
    first.commit()
    second.commit()
    assert first.committed(range(PARTITIONS)) == dict.fromkeys(EVERY_PARTITION, 350)

    reader.members = [first]
    second.close()
    wait_until(reader.is_divided, "the one that stayed owns everything again", reader.poll)
    library.produce(topic, numbered(1400, 100))
    wait_until(lambda: len(reader.received) >= 100, "it reads what the other one would have read", reader.poll)
    assert reader.take() == placed(1400, 100)
    first.commit()
    first.close()

    library.produce(topic, numbered(1500, 20))
    elsewhere = Reader()
    elsewhere.members = [library.member(group, topic, assignor)]
    wait_until(lambda: len(elsewhere.received) >= 20, "a third member goes on", elsewhere.poll)
    assert elsewhere.take() == placed(1500, 20), "exactly after the committed offsets"
    elsewhere.members[0].close()
