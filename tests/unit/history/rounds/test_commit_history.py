from ottla.history.rounds.membership import CommitHistory
from ottla.history.sources.model import CommitSpan
from ottla.protocol.model import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_gap_is_since_the_last_commit_of_any_partition() -> None:
    history = CommitHistory()
    history.add("c", {ONE: CommitSpan(1_000, 5_000, 0, 40, 5), OTHER: CommitSpan(1_000, 1_000, 0, 0, 1)})
    assert history.gap_ms([ONE, OTHER], 11_000) == (6_000, 1_000)
    assert history.gap_ms([OTHER], 11_000) == (10_000, None)
    assert history.gap_ms([TopicPartition("u", 0)], 11_000) is None
    assert history.gap_ms([ONE], 0) == (0, 1_000)


def test_commits_of_another_clock_replace_the_earlier_ones() -> None:
    history = CommitHistory()
    history.add("c", {ONE: CommitSpan(1_000, 5_000, 0, 40, 5)})
    history.add("d", {})
    assert history.clock == "c"
    history.add("d", {OTHER: CommitSpan(7, 7, 0, 0, 1)})
    assert history.gap_ms([ONE], 9_000) is None
