"""A verdict, and what triggered its rebalance, in words: what happened, and the figures behind it."""

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.history.sources.evidence import Cause, Evidence
from ottla.history.verdicts.verdict import Confidence, SettingAdvice, Verdict

_WENT: Final[Mapping[Cause, str]] = {
    Cause.EXPIRE_HEARTBEAT: "{who} sent no heartbeat{silent_ms| for |}{session_timeout_ms| (its session is |)} and was removed",
    Cause.POLL_TIMEOUT: "{who} did not poll within max.poll.interval.ms{max_poll_interval_ms| (|)} and left",
    Cause.JOIN_TIMEOUT: "{who} did not rejoin within the rebalance timeout{max_poll_interval_ms| (|)} and was removed",
    Cause.SYNC_TIMEOUT: "{who} joined and then sent no SyncGroup, and was removed",
    Cause.LEAVE_CLOSE: "{who} closed, and left the group",
    Cause.RESTART_DYNAMIC: "{who} stopped for a restart{absence_ms|: it was away for |}",
}
_CAME: Final[Mapping[Cause, str]] = {
    Cause.EXPIRE_HEARTBEAT: "{who} came back{absence_ms| after |}: it had been removed because it sent no heartbeat{silent_ms| for |}",
    Cause.POLL_TIMEOUT: "{who} came back{absence_ms| after |}: it had left because it did not poll within max.poll.interval.ms",
    Cause.JOIN_TIMEOUT: "{who} came back{absence_ms| after |}: it had been too late to rejoin",
    Cause.SYNC_TIMEOUT: "{who} came back{absence_ms| after |}: it had sent no SyncGroup",
    Cause.LEAVE_CLOSE: "{who} came back{absence_ms| after |}",
    Cause.RESTART_DYNAMIC: "{who} came back from a restart{absence_ms| of |}",
}
_TEXTS: Final[Mapping[Cause, str]] = {
    Cause.COLD_START: "The group started: {who} joined",
    Cause.JOIN_NEW: "{who} joined the group",
    Cause.TOPIC_CHANGE: "The subscribed topics changed: a topic or partitions came or went",
    Cause.SUBSCRIPTION: "{who} subscribed to other topics",
    Cause.ASSIGNOR_CHANGE: "The members use another assignor",
    Cause.COOP_FOLLOWUP: "The second half of a cooperative rebalance: revoked partitions were assigned",
    Cause.LEADER_REJOIN_SPURIOUS: "{who} joined again although nothing had changed",
    Cause.ADMIN: "An administrator removed {who}",
    Cause.ENFORCED: "The application of {who} asked for the rebalance",
    Cause.CAPACITY: "The group was larger than group.max.size",
    Cause.STORE_ERROR: "The coordinator could not store the assignment",
    Cause.MIGRATION: "The group changed between the classic protocol and KIP-848",
    Cause.COORDINATOR_MOVE: "The group moved to another coordinator, and members joined again",
    Cause.STATIC_REJOIN: "{who} restarted and kept its partitions, as it has a group.instance.id: no rebalance",
    Cause.FAILED_JOIN: "{who} was refused and could not join",
    Cause.STATIC_FENCED: "A second process used the group.instance.id of {who}",
    Cause.UNKNOWN: "The evidence does not say why",
}
_TRIGGERS: Final[Mapping[str, str]] = {
    **{cause.value: text for cause, text in (*_TEXTS.items(), *_WENT.items())},
    "LEAVE": "{who} left the group",
    "ADMIN_REMOVE": _TEXTS[Cause.ADMIN],
    "LEADER_REJOIN": "{who}, the leader, joined again",
    "METADATA_UPDATE": "{who} joined again with another subscription",
    "STATIC_REJOIN": "{who} came back with its group.instance.id",
    "REBALANCE_TIMEOUT": "{who} did not give up its partitions within the rebalance timeout",
    "SUBSCRIPTION_CHANGE": "{who} subscribed to other topics",
    "REGEX_CHANGE": "The regular expression of {who} matches other topics",
}
"""What the code of a trigger (docs/rebalances.md) says of a member: what its cause says, where code and cause are the same."""
_DOUBT: Final = {Confidence.HIGH: "", Confidence.MEDIUM: "Probably: ", Confidence.LOW: "Perhaps: "}
_NAMES: Final = {
    "silent_ms": "silent for",
    "session_timeout_ms": "session.timeout.ms",
    "max_poll_interval_ms": "max.poll.interval.ms",
    "last_commit_age_ms": "last commit of its partitions before",
    "absence_ms": "away for",
    "exceeded_by_ms": "poll interval exceeded by",
    "join_phase_ms": "joins took",
    "sync_ms": "assignment took",
    "coalesced_triggers": "more triggers while it ran",
    "follow_up_count": "second halves (cooperative)",
    "generations_skipped": "generations before it without evidence",
}


def sentence_of(verdict: Verdict) -> str:
    """What happened, with a word of doubt where the confidence is not high."""
    has_come = (verdict.members_after or 0) > (verdict.members_before or 0)
    pattern = (_CAME if has_come else _WENT).get(verdict.cause) or _TEXTS.get(verdict.cause, _TEXTS[Cause.UNKNOWN])
    unnamed = "A member" if pattern.startswith("{who}") else "a member"
    who = unnamed if verdict.who is None else verdict.who.label
    text = "".join(_filled(pattern, who, verdict.evidence))
    if verdict.contributing:
        text += f"; meanwhile also {', '.join(cause.value for cause in verdict.contributing)}"
    doubt = _DOUBT[verdict.confidence] if verdict.cause is not Cause.UNKNOWN else ""
    return f"{doubt}{text}."


def trigger_text(trigger: Evidence, who: str) -> str:
    """What an Ottla broker published that it saw, without a full stop; `who`: what to call the member."""
    code = str(trigger.trigger_code)
    figures = dict(trigger.evidence)
    if "last_heartbeat_age_ms" in figures:
        figures["silent_ms"] = figures["last_heartbeat_age_ms"]
    text = "".join(_filled(_TRIGGERS.get(code, f"{{who}}: {code}"), who, figures))
    return f'{text}, saying "{trigger.client_reason}"' if trigger.client_reason else text


def _filled(pattern: str, who: str, figures: Mapping[str, int]) -> Iterator[str]:
    """The parts of a pattern: `{who}`, and `{figure|before|after}`, which is left out where the figure is not known."""
    for at, part in enumerate(pattern.replace("}", "{").split("{")):
        name, *around = part.split("|")
        if at % 2 == 0:
            yield part
        elif name == "who":
            yield who
        elif name in figures:
            yield f"{around[0]}{duration(figures[name])}{around[1]}"


def evidence_texts(verdict: Verdict) -> tuple[str, ...]:
    """The figures, what they show by which rule, and where they come from."""
    found = [
        f"{_NAMES.get(name, name.removesuffix('_ms').replace('_', ' '))} {(duration(value) if name.endswith('_ms') else f'{value:,}')}"
        for name, value in verdict.evidence.items()
    ]
    slowest = verdict.slowest
    if slowest is not None and slowest.revocation_ms is not None:
        found.append(f"{slowest.name} took longest to give up partitions: {duration(slowest.revocation_ms)}")
    elif slowest is not None and slowest.reconciliation_ms is not None:
        found.append(f"{slowest.name} was the last to get its partitions, after {duration(slowest.reconciliation_ms)}")
    if verdict.cost.reread_messages:
        found.append(f"{counted(verdict.cost.reread_messages, 'message')} were committed again from an earlier offset")
    found += [f"rule: {rule}" for rule in verdict.rules]
    return (*found, f"sources: {', '.join(verdict.sources)}") if verdict.sources else tuple(found)


def advice_text(advice: SettingAdvice) -> str:
    """A setting with its value, the arithmetic, and where it backfires."""
    head = "" if advice.value is None else f"Set {advice.setting} to {advice.value}. "
    return f"{head}{advice.sentence}" + (f" But: {advice.warning}" if advice.warning else "")


def counted(number: int, noun: str) -> str:
    """`1 rebalance`, `3 rebalances`, `1,200 members`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(milliseconds: float) -> str:
    """A time span in the largest unit that leaves it readable: `340 ms`, `6.1 s`, `4 min 10 s`, `2 h 5 min`."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
