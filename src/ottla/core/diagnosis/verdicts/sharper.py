"""Which log or setting would have made a verdict sharper."""

from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.rounds.round import Round
from ottla.core.diagnosis.verdicts.rule import Confidence, Narrowed

_LOSS: Final = frozenset({Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC, Cause.EXPIRE_HEARTBEAT, Cause.JOIN_TIMEOUT})
_CHANGE: Final = frozenset({Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS, Cause.ENFORCED})


def what_is_missing(each: Round, narrowed: Narrowed) -> str | None:
    """One sentence, or None where the verdict is sure or nothing would help."""
    if narrowed.confidence is Confidence.HIGH and len(narrowed.candidates) == 1:
        return None
    sources = {part.source for part in each.parts} | {item.source for item in each.client_items}
    candidates = frozenset(narrowed.candidates)
    if len(candidates & _LOSS) > 1 and "client-log" not in sources:
        return (
            "The log of the member distinguishes a close, a restart and a poll timeout (--client-log); "
            "Java's members give the broker a reason, too."
        )
    if candidates & _LOSS and not sources & {"broker-log", "group-events"}:
        return "The coordinator's log says whether the member left or its session expired (--broker-log)."
    if len(candidates & _CHANGE) > 1 and "offsets-topic" not in sources and "group-events" not in sources:
        return "The offsets topic shows what changed in subscriptions and assignments (ottla watch, or --offsets-topic)."
    if len(candidates & _CHANGE) > 1 and "client-log" not in sources:
        return "The log of the member says why it joined again (--client-log; librdkafka: debug=cgrp)."
    if {Cause.STATIC_REJOIN, Cause.STATIC_FENCED} <= candidates:
        return "The logs of the processes with this instance id say whether one was fenced (--client-log)."
    if narrowed.cause is Cause.UNKNOWN:
        return "The coordinator's log, or group events of an Ottla broker, name the trigger (--broker-log)."
    return None
