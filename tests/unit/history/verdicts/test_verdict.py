import json

from ottla.history.rounds.identity import Identity
from ottla.history.sources.cause_codes import Cause
from ottla.history.verdicts.rule import Confidence
from ottla.history.verdicts.verdict import REBALANCE, SettingAdvice, Verdict


def test_a_verdict_is_json_with_the_documented_keys() -> None:
    verdict = Verdict(
        group="g",
        generation=4,
        started_ms=1,
        ended_ms=None,
        kind=REBALANCE,
        cause=Cause.ADMIN,
        candidates=(Cause.ADMIN,),
        confidence=Confidence.HIGH,
        planned=True,
        avoidable=False,
        who=Identity("m", None, "c", "/h"),
        advice=(SettingAdvice("group.instance.id", None, "Because."),),
    )
    fields = json.loads(json.dumps(verdict.to_dict()))
    assert {"group", "generation", "started_ms", "ended_ms", "kind", "cause", "candidates", "confidence", "planned", "avoidable"} <= set(
        fields
    )
    assert {"members_before", "members_after", "evidence", "advice", "sources", "class", "cost", "who", "sharper"} <= set(fields)
    assert (fields["cause"], fields["confidence"], fields["who"]["client_id"]) == ("ADMIN", "high", "c")
    assert fields["advice"] == [{"setting": "group.instance.id", "value": None, "sentence": "Because.", "warning": None}]
