"""The setting that would have avoided a rebalance, its value with the arithmetic, and where the advice backfires."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.groups.reason_evidence import HEARTBEATS_MISSING, evidence_in, evidence_text
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import SettingAdvice

SESSION_MAXIMA: Final = {False: ("group.max.session.timeout.ms", 1_800_000), True: ("group.consumer.max.session.timeout.ms", 60_000)}
"""The longest session that brokers allow unless they are told otherwise; by whether the group is of the consumer protocol."""

RESTART_MS_MAX: Final = 120_000
"""A session that outlasts a longer restart hides dead members for minutes: no value is advised."""

ROTATING_NAME: Final = re.compile(r"-[a-z0-9]{6,10}-[a-z0-9]{5}$")
"""How names of a Kubernetes ReplicaSet's pods end; they are new after each deployment."""


class Situation(NamedTuple):
    """What advice depends on. `reason`: the client's, where it has evidence in brackets."""

    figures: Mapping[str, int]
    who: Identity | None
    returned: Identity | None
    is_consumer_type: bool
    did_return: bool
    reason: str = ""


def advice_for(cause: Cause, situation: Situation) -> tuple[SettingAdvice, ...]:
    """The advice for one cause; empty where no setting helps."""
    make = _ADVICE.get(cause)
    advice = () if make is None else make(situation)
    measured = evidence_text(situation.reason)
    if not measured or not advice:
        return advice
    return (advice[0]._replace(sentence=f"The member measured {measured}. {advice[0].sentence}"), *advice[1:])


def _session_name(situation: Situation) -> str:
    return "group.consumer.session.timeout.ms" if situation.is_consumer_type else "session.timeout.ms"


def _allowed_session(situation: Situation, wanted_ms: int, least_ms: int) -> tuple[int | None, str]:
    """A session that brokers allow, None where that is no longer than `least_ms`, and what to add where it is not the one that is wanted.

    A session above the default of the maximum shows that it was raised.
    """
    name, limit_ms = SESSION_MAXIMA[situation.is_consumer_type]
    if wanted_ms <= limit_ms or situation.figures.get("session_timeout_ms", 0) > limit_ms:
        return wanted_ms, ""
    note = f" Brokers allow {_seconds(limit_ms)} at most, unless their {name} is raised"
    return (limit_ms, f"{note}.") if least_ms < limit_ms else (None, f"{note}: raise both, or find out why it took so long.")


def _static(situation: Situation) -> tuple[SettingAdvice, ...]:
    absence_ms, session_ms = situation.figures.get("absence_ms"), situation.figures.get("session_timeout_ms")
    wanted_ms = _round_up(2 * absence_ms, 5_000) if absence_ms is not None else 0
    allowed_ms, note = _allowed_session(situation, wanted_ms, absence_ms or 0)
    needed_ms = wanted_ms if allowed_ms is None else allowed_ms
    is_known = f" ({_seconds(max(session_ms, needed_ms))})" if session_ms is not None and (absence_ms or 0) <= RESTART_MS_MAX else ""
    was_away = f"was away for {_seconds(absence_ms)}" if absence_ms is not None else "came back"
    sentence = (
        f"The client {was_away}: with a group.instance.id of its own it would have kept its partitions, as long as "
        f"{_session_name(situation)}{is_known} is longer than a restart."
    )
    found = [SettingAdvice("group.instance.id", "one for each consumer, the same after a restart", sentence, _rotation_warning(situation))]
    if session_ms is not None and needed_ms > session_ms and absence_ms is not None and absence_ms <= RESTART_MS_MAX:
        more = (
            f"A restart took {_seconds(absence_ms)}, the session is {_seconds(session_ms)}: "
            f"{_seconds(wanted_ms)} leaves room for twice that.{note}"
        )
        value = None if allowed_ms is None else str(allowed_ms)
        found.append(SettingAdvice(_session_name(situation), value, more, _detection_warning(needed_ms)))
    return tuple(found)


def _rotation_warning(situation: Situation) -> str:
    members = [member for member in (situation.who, situation.returned) if member is not None]
    texts = [text for member in members for text in (member.client_id, member.instance_id, member.client_host) if text]
    hosts = {member.client_host for member in members if member.client_host}
    if any(ROTATING_NAME.search(text) for text in texts) or len(hosts) > 1:
        return (
            "Names or hosts of these members change with each deployment (pods of a ReplicaSet?): an id made of them is a new member each "
            "time, and the old one blocks its partitions until its session ends. Use a StatefulSet, or ids of your own."
        )
    return "Ids must be stable and unique: not those of pods of a ReplicaSet, which are new after each deployment (use a StatefulSet)."


def _session(situation: Situation) -> tuple[SettingAdvice, ...]:
    session_ms, absence_ms = situation.figures.get("session_timeout_ms"), situation.figures.get("absence_ms")
    name = _session_name(situation)
    if not situation.did_return:
        sentence = (
            "The member did not come back: it crashed, was killed, or lost its network. No setting avoids that; find out what ended it."
        )
        return (SettingAdvice(name, None, sentence),)
    if absence_ms is None:
        sentence = (
            "The member was silent for longer than its session and came back: look for pauses (GC, a blocked event loop, CPU limits)."
        )
        return (SettingAdvice(name, None, sentence),)
    if absence_ms > RESTART_MS_MAX:
        sentence = f"The member was away for {_seconds(absence_ms)} more than its session, which no session should outlast: find out why."
        return (SettingAdvice(name, None, sentence),)
    if session_ms is None:
        sentence = (
            f"The member was silent for its whole session, which no source shows, and {_seconds(absence_ms)} more, and came back: "
            f"a {name} longer by {_seconds(_round_up(absence_ms * 5 // 4, 1_000))} would have outlasted that."
        )
        return (SettingAdvice(name, None, sentence),)
    silence_ms = session_ms + absence_ms
    wanted_ms = _round_up(silence_ms * 5 // 4, 5_000)
    allowed_ms, note = _allowed_session(situation, wanted_ms, silence_ms)
    needed_ms = wanted_ms if allowed_ms is None else allowed_ms
    heartbeat = "group.consumer.heartbeat.interval.ms" if situation.is_consumer_type else "heartbeat.interval.ms"
    sentence = (
        f"The member was silent for {_seconds(session_ms)} (its session) + {_seconds(absence_ms)} = {_seconds(silence_ms)} and came back: "
        f"a session of {_seconds(needed_ms)} would have outlasted that; keep {heartbeat} at a third of it or less.{note}"
    )
    return (SettingAdvice(name, None if allowed_ms is None else str(allowed_ms), sentence, _detection_warning(needed_ms)),)


def _detection_warning(session_ms: int) -> str:
    return f"A member that really died is then noticed after {_seconds(session_ms)} only; its partitions stand still until then."


def _poll(situation: Situation) -> tuple[SettingAdvice, ...]:
    interval_ms, figures = situation.figures.get("max_poll_interval_ms"), situation.figures
    # librdkafka leaves as soon as the interval is over: the work ends when the member comes back.
    over_ms = max((figures[name] for name in ("exceeded_by_ms", "absence_ms") if name in figures), default=None)
    name = "max.poll.interval.ms"
    if evidence_in(situation.reason) in HEARTBEATS_MISSING:
        sentence = "Its records did not take too long: find what kept the process from running, or set max.poll.interval.ms above that."
        return (SettingAdvice(name, None, sentence),)
    if interval_ms is None:
        sentence = (
            "One poll's work took longer than max.poll.interval.ms: set it above the longest work on one poll, or lower max.poll.records."
        )
        return (SettingAdvice(name, None, sentence),)
    if over_ms is None:
        sentence = (
            f"One poll's work took longer than {_seconds(interval_ms)}: set max.poll.interval.ms above the longest work on one poll, "
            "or lower max.poll.records."
        )
        return (SettingAdvice(name, None, sentence),)
    work_ms = interval_ms + over_ms
    step_ms = 60_000 if work_ms >= 60_000 else 5_000
    needed_ms = (work_ms // step_ms + 1) * step_ms
    percent = max(1, interval_ms * 100 // work_ms - 1)
    sentence = (
        f"One poll's work took at least {_seconds(interval_ms)} + {_seconds(over_ms)} = {_seconds(work_ms)}: "
        f"set max.poll.interval.ms to {needed_ms} ({_seconds(needed_ms)}), or max.poll.records to {percent} % of what it is."
    )
    return (
        SettingAdvice(name, str(needed_ms), sentence, "A member that hangs is then noticed later, as long as it still sends heartbeats."),
    )


def _join(situation: Situation) -> tuple[SettingAdvice, ...]:
    interval_ms = situation.figures.get("max_poll_interval_ms", situation.figures.get("rebalance_timeout_ms"))
    limit = f" ({_seconds(interval_ms)})" if interval_ms else ""
    sentence = (
        f"The member did not join again within the rebalance timeout, which is max.poll.interval.ms{limit}: "
        "it was still working on a poll or in a rebalance callback. Set it above the longest of these, or make them shorter."
    )
    return (SettingAdvice("max.poll.interval.ms", None, sentence),)


def _cold(situation: Situation) -> tuple[SettingAdvice, ...]:
    if not situation.figures.get("late_starters"):
        return ()
    sentence = (
        "Members joined one after the other: a longer delay before the first rebalance of an empty group would have joined them in one."
    )
    return (SettingAdvice("group.initial.rebalance.delay.ms", None, sentence, "The first records are read that much later."),)


def _fenced(situation: Situation) -> tuple[SettingAdvice, ...]:
    who = situation.who.instance_id if situation.who is not None else None
    sentence = f"Two processes use the instance id {who!r}: give each consumer its own." if who else "Two processes use one instance id."
    return (SettingAdvice("group.instance.id", "one for each consumer", sentence),)


def _refused(situation: Situation) -> tuple[SettingAdvice, ...]:
    if situation.who is None or situation.who.instance_id is None:
        sentence = "The member shares no assignor with the group (INCONSISTENT_GROUP_PROTOCOL): give it one that all members have."
        return (SettingAdvice("partition.assignment.strategy", None, sentence),)
    sentence = (
        "A process was killed and started again within its session: until that ends, the coordinator refuses the new one with "
        "UNRELEASED_INSTANCE_ID, of which most clients die. Start it again after that, or stop it with a close."
    )
    return (SettingAdvice(_session_name(situation), None, sentence),)


def _capacity(situation: Situation) -> tuple[SettingAdvice, ...]:
    size = situation.figures.get("group_size")
    return (SettingAdvice("group.max.size", None if size is None else str(size), "The group has more members than group.max.size allows."),)


def _store(situation: Situation) -> tuple[SettingAdvice, ...]:
    sentence = "The coordinator could not store the assignment: look at in-sync replicas of __consumer_offsets and its max.message.bytes."
    return (SettingAdvice("min.insync.replicas", None, sentence),)


def _needless(situation: Situation) -> tuple[SettingAdvice, ...]:
    sentence = (
        "A member joined again and nothing had changed: some versions of librdkafka and kafka-python do so; upgrade the client, "
        "and do not subscribe again to the same topics."
    )
    return (SettingAdvice("client version", None, sentence),)


def _round_up(value_ms: int, step_ms: int) -> int:
    return -(-value_ms // step_ms) * step_ms


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 60_000:g} min" if duration_ms >= 60_000 and duration_ms % 60_000 == 0 else f"{duration_ms / 1000:.3g} s"


_ADVICE: Final[Mapping[Cause, Callable[[Situation], tuple[SettingAdvice, ...]]]] = {
    Cause.RESTART_DYNAMIC: _static,
    Cause.EXPIRE_HEARTBEAT: _session,
    Cause.POLL_TIMEOUT: _poll,
    Cause.JOIN_TIMEOUT: _join,
    Cause.SYNC_TIMEOUT: _join,
    Cause.COLD_START: _cold,
    Cause.STATIC_FENCED: _fenced,
    Cause.CAPACITY: _capacity,
    Cause.FAILED_JOIN: _refused,
    Cause.STORE_ERROR: _store,
    Cause.LEADER_REJOIN_SPURIOUS: _needless,
}
