"""Where a query continues its partitions and what it commits, alone and among other members of its group."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.model import TopicPartition
from ottla.spark.group.progress import Owned, Processed, Progress, resume_offset

ZERO = TopicPartition("t", 0)
ONE = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("processed", "committed", "expected"),
    [
        (None, None, 7),
        (None, 3, 3),
        (Processed(10, 20), 10, 20),  # the commit of the last batch did not come to pass
        (Processed(10, 20), 15, 20),
        (Processed(10, 20), 20, 20),
        (Processed(10, 20), 21, 21),  # another member has progressed
        (Processed(10, 20), 9, 9),  # an administrator has reset the group
        (Processed(10, 20), None, 20),  # the group's offsets have expired
    ],
)
def test_where_a_partition_continues(processed: Processed | None, committed: int | None, expected: int) -> None:
    assert resume_offset(processed, committed, 7) == expected


def test_what_is_due_is_what_the_group_does_not_have() -> None:
    progress = Progress()
    progress.assigned([ZERO, ONE])
    assert progress.due() == {}  # nothing is known yet
    owned = progress.owned()
    progress.resume(ZERO, owned[ZERO], 5, 0)
    progress.resume(ONE, owned[ONE], None, 8)
    assert {partition: each.position for partition, each in progress.due().items()} == {ONE: 8}
    owned[ONE].committed = 8
    progress.planned({ZERO: Processed(5, 9)}, owned)
    progress.batch_done()
    assert {partition: each.position for partition, each in progress.due().items()} == {ZERO: 9}


def test_what_was_given_up_is_not_committed_and_what_was_processed_is_not_read_again() -> None:
    progress = Progress()
    progress.assigned([ZERO])
    owned = progress.owned()
    progress.resume(ZERO, owned[ZERO], 5, 0)
    progress.planned({ZERO: Processed(5, 9)}, owned)
    progress.given_up([ZERO, ONE])
    progress.assigned([ZERO])
    progress.batch_done()
    assert progress.due() == {}
    again = progress.owned()[ZERO]
    assert again.position is None
    progress.resume(ZERO, again, 5, 0)
    assert again.position == 9
    assert progress.due() == {ZERO: again}


class Query:
    """A streaming query with its checkpoint: `table` has how often it has processed each offset."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.table: list[int] = []
        self.checkpoint: tuple[int, Processed] | None = None
        self.batch: tuple[int, Processed] | None = None
        self.owned: dict[TopicPartition, Owned] = {}

    def restart(self) -> None:
        """Killed and started again: a batch that was planned is read once more, with its own start and end."""
        self.progress = Progress()
        self.batch = None
        if self.checkpoint is not None:
            start, processed = self.checkpoint
            self.table = [offset for offset in self.table if not start <= offset < processed.end]  # the table is keyed by batch
            self.table += range(start, processed.end)
            self.progress.restore({ZERO: processed})


class Group(RuleBasedStateMachine):
    """One partition, and queries that take it over from each other; commits may fail, queries are killed or lose their membership."""

    @initialize()
    def begin(self) -> None:
        self.queries = [Query(), Query()]
        self.owner: int | None = None
        self.end = 0
        self.committed: int | None = None

    @rule(count=st.integers(1, 5))
    def produce(self, count: int) -> None:
        self.end += count

    @precondition(lambda self: self.owner is None)
    @rule(number=st.integers(0, 1))
    def assign(self, number: int) -> None:
        self.owner = number
        self.queries[number].progress.assigned([ZERO])

    @precondition(lambda self: self.owner is not None)
    @rule(is_lost=st.booleans())
    def take_away(self, is_lost: bool) -> None:
        query = self.queries[self.owner or 0]
        if query.batch is None or is_lost:  # a revocation waits for the batch
            query.progress.given_up([ZERO])
            self.owner = None

    @rule(number=st.integers(0, 1), is_committed=st.booleans())
    def trigger(self, number: int, is_committed: bool) -> None:
        query = self.queries[number]
        if query.batch is not None:
            query.table += range(query.batch[0], query.batch[1].end)
            query.batch = None
        query.progress.batch_done()
        for owned in query.progress.due().values():
            assert self.owner == number
            if is_committed:
                assert owned.position is not None
                assert self.committed is None or owned.position >= self.committed
                self.committed = owned.committed = owned.position
        owned = query.progress.owned().get(ZERO)
        if owned is None:
            return
        if owned.position is None:
            query.progress.resume(ZERO, owned, self.committed, 0)
        assert owned.position is not None
        if self.end > owned.position:
            start = owned.position
            processed = Processed(start if owned.committed is None else owned.committed, self.end)
            query.batch = query.checkpoint = start, processed
            query.progress.planned({ZERO: processed}, {ZERO: owned})

    @rule(number=st.integers(0, 1))
    def kill(self, number: int) -> None:
        self.queries[number].restart()
        if self.owner == number:
            self.owner = None

    @invariant()
    def nothing_is_skipped(self) -> None:
        done = {offset for query in self.queries for offset in query.table}
        assert done.issuperset(range(self.committed or 0))

    @invariant()
    def a_query_processes_nothing_twice(self) -> None:
        for query in self.queries:
            assert len(query.table) == len(set(query.table))


TestGroup = Group.TestCase
