import pytest

from ottla.history.rounds.round import Round
from ottla.history.rounds.splitting import Part
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Source
from ottla.history.verdicts.cost import what_is_missing
from ottla.history.verdicts.rule import Confidence, Narrowed

C = Cause


@pytest.mark.parametrize(
    ("source", "candidates", "words"),
    [
        (Source.BROKER_LOG, (C.LEAVE_CLOSE, C.POLL_TIMEOUT), "--client-log"),
        (Source.OFFSETS_TOPIC, (C.EXPIRE_HEARTBEAT,), "--broker-log"),
        (Source.BROKER_LOG, (C.TOPIC_CHANGE, C.SUBSCRIPTION), "--offsets-topic"),
        (Source.OFFSETS_TOPIC, (C.TOPIC_CHANGE, C.SUBSCRIPTION), "debug=cgrp"),
        (Source.BROKER_LOG, (C.STATIC_REJOIN, C.STATIC_FENCED), "--client-log"),
        (Source.ADMIN, (C.UNKNOWN,), "--broker-log"),
        (Source.BROKER_LOG, (C.JOIN_NEW, C.COLD_START), None),
    ],
)
def test_the_log_or_setting_that_would_tell_the_candidates_apart(source: Source, candidates: tuple[Cause, ...], words: str | None) -> None:
    each = Round(group="g", generation=1, parts=[Part(clock="c", source=source)])
    shares = [(cause, 1 / len(candidates)) for cause in candidates]
    found = what_is_missing(each, Narrowed(shares, Confidence.MEDIUM, (), False))
    assert found is None if words is None else words in (found or "")


def test_a_sure_verdict_needs_nothing() -> None:
    each = Round(group="g", generation=1, parts=[])
    assert what_is_missing(each, Narrowed([(C.ADMIN, 1.0)], Confidence.HIGH, (), False)) is None
