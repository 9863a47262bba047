from typing import Any

import pytest

from ottla.history.rounds.identity import Identity
from ottla.history.sources.cause_codes import Cause
from ottla.history.story.sentences import advice_text, evidence_texts, sentence_of
from ottla.history.verdicts.rule import Confidence
from ottla.history.verdicts.verdict import Cost, SettingAdvice, Verdict


def verdict(cause: Cause, **fields: Any) -> Verdict:
    given = {
        "generation": 2,
        "started_ms": 1,
        "ended_ms": 5,
        "kind": "rebalance",
        "candidates": (cause,),
        "confidence": Confidence.HIGH,
        "planned": False,
        "avoidable": True,
        "who": Identity(client_id="w1"),
    }
    return Verdict(group="g", cause=cause, **(given | fields))


def test_a_lost_member_has_its_figures_in_the_sentence() -> None:
    lost = verdict(Cause.EXPIRE_HEARTBEAT, evidence={"silent_ms": 6_100, "session_timeout_ms": 6_000}, members_before=3, members_after=2)
    assert sentence_of(lost) == "w1 sent no heartbeat for 6.1 s (its session is 6.0 s) and was removed."


def test_names_of_members_are_kept_and_unknown_figures_are_left_out() -> None:
    assert sentence_of(verdict(Cause.EXPIRE_HEARTBEAT)) == "w1 sent no heartbeat and was removed."


def test_a_member_that_comes_back_has_another_sentence() -> None:
    back = verdict(Cause.POLL_TIMEOUT, evidence={"absence_ms": 2_000}, members_before=2, members_after=3)
    assert sentence_of(back) == "w1 came back after 2.0 s: it had left because it did not poll within max.poll.interval.ms."


def test_doubt_is_said() -> None:
    assert sentence_of(verdict(Cause.LEAVE_CLOSE, confidence=Confidence.MEDIUM)) == "Probably: w1 closed, and left the group."
    assert sentence_of(verdict(Cause.UNKNOWN, confidence=Confidence.LOW)) == "The evidence does not say why."
    assert sentence_of(verdict(Cause.JOIN_NEW, who=None, contributing=(Cause.LEAVE_CLOSE,))) == (
        "A member joined the group; meanwhile also LEAVE_CLOSE."
    )


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("members", [(2, 1), (1, 2), (None, None)])
def test_every_cause_has_a_sentence(cause: Cause, members: tuple[int | None, int | None]) -> None:
    text = sentence_of(verdict(cause, members_before=members[0], members_after=members[1], evidence={"silent_ms": 5}))
    assert text.endswith(".")
    assert not set("{}|") & set(text)


def test_a_hostile_name_stays_what_it_is() -> None:
    named = verdict(Cause.JOIN_NEW, who=Identity(client_id="{who|silent_ms}</script>"))
    assert sentence_of(named) == "{who|silent_ms}</script> joined the group."


def test_evidence_is_figures_rules_and_sources() -> None:
    texts = evidence_texts(
        verdict(
            Cause.JOIN_NEW,
            evidence={"silent_ms": 6_100, "group_size": 1_200},
            rules=("not seen before",),
            sources=("broker-log",),
            cost=Cost(reread_messages=1),
        )
    )
    assert texts == (
        "silent for 6.1 s",
        "group size 1,200",
        "1 message were committed again from an earlier offset",
        "rule: not seen before",
        "sources: broker-log",
    )


def test_advice_warns_of_itself() -> None:
    assert advice_text(SettingAdvice("a.ms", "9", "Because.", "it costs.")) == "Set a.ms to 9. Because. But: it costs."
    assert advice_text(SettingAdvice("a.ms", None, "Nothing helps.")) == "Nothing helps."
