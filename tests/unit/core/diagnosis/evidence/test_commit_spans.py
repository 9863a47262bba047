"""Tests of summarised commits."""

from ottla.core.diagnosis.evidence.commit_spans import CommitSpans
from ottla.core.diagnosis.evidence.model import CommitSpan
from ottla.core.model import TopicPartition


def test_a_span_has_the_first_the_last_and_how_many() -> None:
    spans = CommitSpans()
    for at_ms, offset in ((5, 10), (7, 30), (9, 20)):
        spans.add("g", "t", 1, at_ms, offset)
    spans.add("h", "t", 1, 1, 1)
    assert spans.groups() == ["g", "h"]
    assert spans.take("g") == {TopicPartition("t", 1): CommitSpan(5, 9, 10, 20, 3)}
    assert spans.take("g") == {}
    assert spans.groups() == ["h"]
