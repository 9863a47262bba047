from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.diagnosis.evidence.model import Kind, Source
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.prediction import evidence_of_group, find_settings, predict
from ottla.core.whatif.replay import replay
from ottla.core.whatif.settings import Settings
from ottla.testing.kit.evidence import EvidenceLog
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
SILENCE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
GROUP = behaviour(process("a", START, SILENCE), process("b", START))
EVIDENCE = [item for event in replay(GROUP).events if (item := evidence_of_event(event, clock="c")) is not None]


def test_from_evidence_to_what_changes() -> None:
    found = predict("g", EVIDENCE, Settings(session_timeout_ms=9_000))
    assert found.comparison is not None
    assert (found.agreement.is_complete, len(found.comparison.gone), found.comparison.after.unplanned) == (True, 2, 0)


def test_from_evidence_to_settings() -> None:
    found = find_settings("g", EVIDENCE, at_most=0)
    assert found.search is not None
    assert found.search.best is not None
    assert found.search.best.settings == Settings(session_timeout_ms=11_000)


def test_a_client_that_names_neither_group_nor_member_counts() -> None:
    broker, client = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG, group=None, now_ms=1_005_000)
    broker.leave("a-id", 1, client_id="a")
    broker.rebalance(2, count=1)
    client.add(Kind.CLIENT_LOST, client_id="a", trigger="POLL_TIMEOUT")
    other = EvidenceLog(group="other")
    other.leave("b-id", 1, client_id="b")
    found = evidence_of_group("g", [*broker.lines, *other.lines, *client.lines])
    assert len(found) == len(broker.lines) + 1
    assert found[-1].kind is Kind.CLIENT_LOST
