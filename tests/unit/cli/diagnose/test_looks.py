from ottla.cli.diagnose.looks import compare_looks
from ottla.core.diagnosis.evidence.admin_snapshots import GroupSnapshot
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.verdicts.judging import judge
from ottla.core.diagnosis.verdicts.rule import Confidence
from ottla.testing.kit.evidence import member


def test_what_changes_between_looks_is_judged_with_little_certainty() -> None:
    pauses: list[None] = []
    both, one = (member("w1", 0), member("w2", 1)), (member("w1", 0, 1),)
    looks = iter([both, both, one])

    def look() -> list[GroupSnapshot]:
        at_ms = 1_000 + 2_000 * len(pauses)
        return [GroupSnapshot(at_ms=at_ms, group="g", group_type="classic", state="Stable", protocol="range", members=next(looks))]

    (verdict,) = judge(compare_looks(look, pause=lambda: pauses.append(None), looks=3))["g"]
    assert len(pauses) == 2
    assert (verdict.members_before, verdict.members_after, verdict.generation) == (2, 1, None)
    assert {Cause.LEAVE_CLOSE, Cause.EXPIRE_HEARTBEAT} <= set(verdict.candidates)
    assert verdict.confidence < Confidence.HIGH
