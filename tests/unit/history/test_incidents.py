"""Incidents: rebalances of several members and groups that belong together are one, and each rebalance is in one."""

from typing import Any

from ottla.history.incidents import Incident, IncidentKind, find_incidents
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.arrival_rules import STILL_LISTED
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, REFUSED, Confidence, Cost, SettingAdvice, Verdict


def _verdict(
    cause: Cause, at_s: float, member: str | None = "w1", *, group: str = "orders", host: str | None = None, **more: Any
) -> Verdict:
    known = {
        "group": group,
        "generation": int(at_s),
        "started_ms": int(at_s * 1000),
        "ended_ms": int(at_s * 1000) + 100,
        "kind": REBALANCE,
        "cause": cause,
        "candidates": (cause,),
        "confidence": Confidence.HIGH,
        "planned": cause in (Cause.JOIN_NEW, Cause.LEAVE_CLOSE, Cause.COLD_START),
        "avoidable": True,
        "who": None if member is None else Identity(f"{member}-id", None, member, host),
    }
    return Verdict(**(known | more))


def _kinds(*verdicts: Verdict) -> list[tuple[str, tuple[str, ...], int]]:
    found = find_incidents(verdicts)
    members = [id(verdict) for incident in found for verdict in incident.verdicts]
    assert sorted(members) == sorted(map(id, verdicts)), "each verdict belongs to one incident"
    return [(incident.kind.value, incident.culprits, len(incident.verdicts)) for incident in found]


def _one(*verdicts: Verdict) -> Incident:
    (incident,) = find_incidents(verdicts)
    return incident


def test_every_cause_has_a_kind() -> None:
    for cause in Cause:
        assert (_one(_verdict(cause, 1)).kind is IncidentKind.UNKNOWN) == (cause is Cause.UNKNOWN)


def test_a_member_that_goes_and_comes_back_again_and_again_is_a_crash_loop() -> None:
    crashes = [_verdict(Cause.RESTART_DYNAMIC, at_s) for at_s in (10, 12, 20, 22)]
    assert _kinds(*crashes) == [("crash loop", ("w1",), 4)]
    assert _kinds(*crashes[:2]) == [("restart", ("w1",), 2)]
    assert _kinds(*crashes[:2], _verdict(Cause.RESTART_DYNAMIC, 90)) == [("restart", ("w1",), 2), ("restart", ("w1",), 1)]
    within_sessions = [_verdict(Cause.RESTART_DYNAMIC, at_s, rules=(STILL_LISTED,)) for at_s in (10, 17)]
    assert _kinds(*within_sessions) == [("crash loop", ("w1",), 2)], "it went and came in one rebalance each time"
    other = _verdict(Cause.RESTART_DYNAMIC, 12, "w2")
    assert _kinds(within_sessions[0], other, within_sessions[1])[0][0] != "crash loop", "others restart, too"


def test_restarts_of_a_family_are_rolling_and_complete_when_all_have_come_back() -> None:
    restarts = [
        _verdict(Cause.RESTART_DYNAMIC, 10, "w-1", members_before=3, members_after=2),
        _verdict(Cause.RESTART_DYNAMIC, 12, "w-1", members_before=2, members_after=3),
        _verdict(Cause.RESTART_DYNAMIC, 14, "w-2", members_before=3, members_after=2),
    ]
    assert _kinds(*restarts) == [("restart, incomplete", ("w-1", "w-2"), 3)]
    back = _verdict(Cause.RESTART_DYNAMIC, 16, "w-2", members_before=2, members_after=3)
    assert _kinds(*restarts, back) == [("rolling restart", ("w-1", "w-2"), 4)]


def test_members_that_replace_all_are_a_rolling_restart_also_by_way_of_none() -> None:
    counts = [(Cause.LEAVE_CLOSE, 2, 1), (Cause.LEAVE_CLOSE, 1, 0), (Cause.JOIN_NEW, 0, 1), (Cause.JOIN_NEW, 1, 2)]
    replaced = [
        _verdict(cause, 10 + at, f"w-{at}", members_before=before, members_after=after) for at, (cause, before, after) in enumerate(counts)
    ]
    assert _kinds(*replaced) == [("rolling restart", ("w-0", "w-1", "w-2", "w-3"), 4)]


def test_losses_at_one_instant_have_one_cause() -> None:
    lost = [_verdict(Cause.EXPIRE_HEARTBEAT, 10 + at, f"w{at}", group=f"g{at}") for at in range(3)]
    back = _verdict(Cause.EXPIRE_HEARTBEAT, 15, "w1", group="g1", members_before=1, members_after=2)
    later = _verdict(Cause.EXPIRE_HEARTBEAT, 40, "w1", group="g1")
    assert _kinds(*lost, back, later) == [("broker outage", (), 4), ("lost member", ("w1",), 1)]
    assert _one(*lost).groups == ("g0", "g1", "g2")
    assert _kinds(lost[0], _verdict(Cause.EXPIRE_HEARTBEAT, 13, group="g1"))[0][0] == "lost member", "three seconds are no instant"
    of_one_group = [_verdict(Cause.EXPIRE_HEARTBEAT, 10, f"w{at}") for at in range(2)]
    assert _kinds(*of_one_group) == [("mass loss", ("w0", "w1"), 2)]
    at_once = _verdict(Cause.EXPIRE_HEARTBEAT, 10, members_before=4, members_after=2)
    assert _kinds(at_once) == [("mass loss", ("w1",), 1)]


def test_members_of_one_of_several_machines_are_a_mass_loss() -> None:
    lost = [_verdict(Cause.EXPIRE_HEARTBEAT, 10, f"w{at}", group=f"g{at}", host="/10.0.0.1") for at in range(2)]
    elsewhere = _verdict(Cause.JOIN_NEW, 60, "w9", host="/10.0.0.2")
    assert _kinds(*lost, elsewhere)[0] == ("mass loss", ("w0", "w1"), 2)
    assert _kinds(*lost)[0][0] == "broker outage"


def test_rejoins_belong_to_what_they_follow_or_are_a_storm() -> None:
    join = _verdict(Cause.JOIN_NEW, 10)
    assert _kinds(join, _verdict(Cause.LEADER_REJOIN_SPURIOUS, 11, "w2")) == [("scaling", ("w1", "w2"), 2)]
    assert _kinds(join, _verdict(Cause.LEADER_REJOIN_SPURIOUS, 20, "w2")) == [("scaling", ("w1",), 1), ("rejoin", ("w2",), 1)]
    storm = [_verdict(Cause.LEADER_REJOIN_SPURIOUS, 20 + at, f"w{at % 2}") for at in range(5)]
    assert _kinds(*storm) == [("reassignment storm", ("w0", "w1"), 5)]


def test_members_that_join_a_group_that_has_just_started_are_part_of_its_start() -> None:
    start, leave = _verdict(Cause.COLD_START, 10), _verdict(Cause.LEAVE_CLOSE, 12, "w3")
    assert _kinds(start, _verdict(Cause.JOIN_NEW, 11, "w2"), leave) == [("group start", ("w1", "w2"), 2), ("scaling", ("w3",), 1)]


def test_what_happens_to_a_member_after_it_is_back_is_not_of_the_outage() -> None:
    lost = [_verdict(Cause.COORDINATOR_MOVE, 10, group=group, members_before=2, members_after=0) for group in ("orders", "billing")]
    back = _verdict(Cause.EXPIRE_HEARTBEAT, 12, members_before=0, members_after=2)
    again = _verdict(Cause.POLL_TIMEOUT, 18, members_before=2, members_after=1)
    other = _verdict(Cause.EXPIRE_HEARTBEAT, 20, "w2", members_before=2, members_after=1)
    assert [kind for kind, *_ in _kinds(*lost, back, again, other)] == ["broker outage", "slow consumer", "lost member"]


def test_what_happens_to_members_during_an_outage_is_named_by_itself() -> None:
    seen = {"sources": ("broker-log",), "members_before": 3, "members_after": 2}
    lost = [_verdict(Cause.COORDINATOR_MOVE, 10, group=group) for group in ("orders", "billing")]
    killed = [_verdict(Cause.EXPIRE_HEARTBEAT, 11, f"w{at}", **seen) for at in (5, 6)]
    restart = _verdict(Cause.RESTART_DYNAMIC, 15)
    back = _verdict(Cause.RESTART_DYNAMIC, 16, group="billing", candidates=(Cause.RESTART_DYNAMIC, Cause.COORDINATOR_MOVE))
    assert _kinds(*lost, *killed, restart, back) == [
        ("broker outage", (), 3),
        ("mass loss", ("w5", "w6"), 2),
        ("restart", ("w1",), 1),
    ]
    of_groups = [_verdict(Cause.EXPIRE_HEARTBEAT, 10, f"w{at}", group=f"g{at}", sources=("broker-log",)) for at in range(2)]
    assert _kinds(*of_groups)[0][0] == "mass loss", "the broker's log was read, and no verdict blames the broker"


def test_an_outage_goes_on_while_groups_move() -> None:
    moves = [_verdict(Cause.COORDINATOR_MOVE, at_s, f"w{at_s}", group=f"g{at_s}") for at_s in (10, 18, 30)]
    assert _kinds(*moves[:1]) == [("coordinator move", (), 1)]
    assert _kinds(*moves) == [("broker outage", (), 3)]
    assert _kinds(moves[0], moves[2], _verdict(Cause.COORDINATOR_MOVE, 60)) == [("coordinator move", (), 2), ("coordinator move", (), 1)]


def test_members_that_are_lost_while_most_stay_are_not_the_brokers_loss() -> None:
    lost = [_verdict(Cause.EXPIRE_HEARTBEAT, 10, f"w{at}", group=f"g{at}", members_before=4, members_after=3) for at in range(2)]
    assert _kinds(*lost) == [("mass loss", ("w0", "w1"), 2)]


def test_a_group_that_stops_and_starts_is_one_incident() -> None:
    restarts = [
        _verdict(Cause.RESTART_DYNAMIC, 10, "w-1", members_before=2, members_after=0),
        _verdict(Cause.RESTART_DYNAMIC, 15, "w-2", members_before=0, members_after=1),
        _verdict(Cause.RESTART_DYNAMIC, 16, "w-1", members_before=1, members_after=2),
    ]
    later = _verdict(Cause.RESTART_DYNAMIC, 90, "w-1", members_before=2, members_after=1)
    assert _kinds(*restarts, later) == [("group restart", ("w-1", "w-2"), 3), ("restart", ("w-1",), 1)]
    stop = _verdict(Cause.LEAVE_CLOSE, 10, members_before=2, members_after=0)
    start = _verdict(Cause.COLD_START, 100, "w2", members_before=0, members_after=2)
    assert _kinds(stop) == [("group stop", ("w1",), 1)]
    assert _kinds(stop, start) == [("group restart", ("w1", "w2"), 2)]
    assert _one(*restarts).planned


def test_members_that_are_replaced_one_by_one_are_a_rolling_restart() -> None:
    steps = [(10, "w-4", 3, 4), (12, "w-1", 4, 3), (14, "w-5", 3, 4), (16, "w-2", 4, 3)]
    replaced = [
        _verdict(Cause.JOIN_NEW if after > before else Cause.LEAVE_CLOSE, at_s, who, members_before=before, members_after=after)
        for at_s, who, before, after in steps
    ]
    assert _kinds(*replaced) == [("rolling restart", ("w-4", "w-1", "w-5", "w-2"), 4)]
    assert _kinds(*replaced[:3])[0][0] == "scaling"


def test_a_deployment_restarts_each_client_once() -> None:
    first = [
        _verdict(Cause.RESTART_DYNAMIC, at_s, who, members_before=before, members_after=5 - before)
        for at_s, who, before in ((10, "w-1", 3), (12, "w-1", 2), (14, "w-2", 3), (16, "w-2", 2))
    ]
    again = _verdict(Cause.RESTART_DYNAMIC, 100, "w-1", members_before=3, members_after=2)
    assert _kinds(*first, again) == [("rolling restart", ("w-1", "w-2"), 4), ("restart", ("w-1",), 1)]
    later = _verdict(Cause.RESTART_DYNAMIC, 100, "w-3", members_before=3, members_after=3)
    assert _kinds(*first, later) == [("rolling restart", ("w-1", "w-2"), 4), ("restart", ("w-3",), 1)], "not at their pace"


def test_what_happens_to_one_member_next_to_each_other_is_one_incident() -> None:
    fenced = _verdict(Cause.STATIC_FENCED, 10, kind=AVOIDED)
    assert _kinds(fenced, _verdict(Cause.STATIC_REJOIN, 14, kind=AVOIDED)) == [("duplicate id", ("w1",), 2)]
    assert len(_kinds(fenced, _verdict(Cause.EXPIRE_HEARTBEAT, 14))) == 2
    slow = _verdict(Cause.POLL_TIMEOUT, 10)
    assert _kinds(slow, _verdict(Cause.EXPIRE_HEARTBEAT, 20)) == [("slow consumer", ("w1",), 2)]
    assert len(_kinds(slow, _verdict(Cause.EXPIRE_HEARTBEAT, 20, "w2"))) == 2
    failed = _one(_verdict(Cause.JOIN_NEW, 10), _verdict(Cause.SYNC_TIMEOUT, 30, planned=False))
    assert (failed.kind, failed.planned) == (IncidentKind.FAILED_JOIN, False)


def test_a_verdict_that_may_have_the_cause_of_what_it_follows_belongs_to_it() -> None:
    change = _verdict(Cause.TOPIC_CHANGE, 10)
    candidates = {"candidates": (Cause.SUBSCRIPTION, Cause.TOPIC_CHANGE)}
    assert _kinds(change, _verdict(Cause.SUBSCRIPTION, 12, "w2", confidence=Confidence.MEDIUM, **candidates))[0][::2] == ("topic change", 2)
    assert len(_kinds(change, _verdict(Cause.SUBSCRIPTION, 12, "w2", **candidates))) == 2, "it is sure"


def test_groups_that_start_together_are_one_incident() -> None:
    starts = [_verdict(Cause.COLD_START, 10 + at, f"w{at}", group=f"g{at}") for at in range(3)]
    assert _one(*starts).groups == ("g0", "g1", "g2")
    assert len(find_incidents([*starts, _verdict(Cause.COLD_START, 60, group="g9")])) == 2


def test_an_incident_as_values_for_json() -> None:
    values = _one(_verdict(Cause.POLL_TIMEOUT, 10, cost=Cost(stopped_partition_seconds=2))).to_dict()
    assert values["kind"] == "incident"
    assert (values["incident"], values["groups"], values["culprits"]) == ("slow consumer", ["orders"], ["w1"])
    assert values["verdicts"] == [["orders", 10, 10_000]]
    assert values["advice"] is None


def test_an_incident_sums_up_its_rebalances() -> None:
    advice = SettingAdvice("session.timeout.ms", "10000", "because"), SettingAdvice("session.timeout.ms", "20000", "because")
    first = _verdict(Cause.EXPIRE_HEARTBEAT, 10, cost=Cost(stopped_partition_seconds=1.5), advice=advice[:1])
    second = _verdict(Cause.EXPIRE_HEARTBEAT, 12, cost=Cost(stopped_partition_seconds=2), advice=advice[1:], confidence=Confidence.LOW)
    incident = _one(first, second)
    assert (incident.started_ms, incident.ended_ms, incident.rebalances) == (10_000, 12_100, 2)
    assert (incident.stopped_partition_seconds, incident.planned, incident.confidence) == (3.5, False, Confidence.LOW)
    assert incident.advice == advice[1]
    assert _one(_verdict(Cause.STATIC_REJOIN, 1, kind=AVOIDED, planned=None)).rebalances == 0
    assert _one(_verdict(Cause.FAILED_JOIN, 1, kind=REFUSED, planned=False)).rebalances == 0
    assert _one(_verdict(Cause.JOIN_NEW, 1)).stopped_partition_seconds is None
