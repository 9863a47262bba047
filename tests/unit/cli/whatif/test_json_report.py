import json

from ottla.cli.whatif.json_report import to_dict
from ottla.core.diagnosis.evidence.group_events import evidence_of_event
from ottla.core.whatif.behaviour import Action, ActionKind
from ottla.core.whatif.prediction import find_settings, predict
from ottla.core.whatif.replay import replay
from ottla.core.whatif.settings import Settings
from ottla.testing.kit.group_behaviours import behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
SILENCE = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=28_000)
GROUP = behaviour(process("a", START, SILENCE), process("b", START))
EVIDENCE = [item for event in replay(GROUP).events if (item := evidence_of_event(event, clock="c")) is not None]


def test_a_prediction() -> None:
    found = json.loads(json.dumps(to_dict(predict("g", EVIDENCE, Settings(session_timeout_ms=9_000)))))
    assert (found["recorded_rebalances"], found["reproduced_rebalances"], found["extra_rebalances"]) == (3, 3, 0)
    assert found["settings"] == {"session.timeout.ms": "9000"}
    assert (found["before"]["unplanned"], found["after"]["unplanned"]) == (2, 0)
    assert [each["after"] for each in found["rebalances"]] == ["stays", "gone", "gone"]
    assert found["before"]["causes"] == {"EXPIRE_HEARTBEAT": 2, "COLD_START": 1}


def test_a_search() -> None:
    found = to_dict(find_settings("g", EVIDENCE, at_most=0))
    assert found["best"]["settings"] == {"session.timeout.ms": "11000"}
    assert [option["unplanned"] for option in found["front"]] == [2, 0]
