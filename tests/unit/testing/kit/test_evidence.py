from ottla.core.diagnosis.evidence.model import Kind, Source
from ottla.testing.kit.evidence import EvidenceLog, member


def test_each_call_is_a_line_at_a_time_after_the_one_before() -> None:
    log = EvidenceLog(Source.GROUP_EVENTS, now_ms=10)
    log.join("a-1", 0, after_ms=5)
    log.rebalance(1, members=(member("a", 0, 1),))
    log.leave("a-1", 1)
    log.expire("b-1", 1)
    log.rejoin("c-1", 1)
    assert [line.at_ms for line in log.lines[:3]] == [15, 115, 135]
    assert [line.kind for line in log.lines[:3]] == [Kind.TRIGGER, Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED]
    assert {line.source for line in log.lines} == {Source.GROUP_EVENTS}
    assert log.lines[2].members is not None
    assert log.lines[2].members[0].assignment == {"t": (0, 1)}
