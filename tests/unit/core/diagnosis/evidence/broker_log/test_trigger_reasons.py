"""The reasons of rebalances, of Apache Kafka 4.x and of older releases, and the causes they tell."""

import pytest

from ottla.core.diagnosis.evidence.broker_log.memory import Memory
from ottla.core.diagnosis.evidence.broker_log.trigger_reasons import trigger_facts
from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.log_reading import Facts

M = "c-0a1b2c3d-0000-4000-8000-000000000001"
N = "d-0a1b2c3d-0000-4000-8000-000000000002"
JOINS = (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC)
LEAVES = (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC)
REJOINS = (Cause.SUBSCRIPTION, Cause.TOPIC_CHANGE, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS)


def facts_of(reason: str, memory: Memory | None = None) -> Facts | None:
    return trigger_facts(reason, group="g", memory=memory or Memory())


@pytest.mark.parametrize(
    ("reason", "member_id", "trigger", "candidates"),
    [
        (f"Adding new member {M} with group instance id null; client reason: not provided", M, None, JOINS),
        (f"Adding new member {M} with group instance id None; client reason: not provided", M, None, JOINS),
        (f"Adding new member {M} with group instanceid None", M, None, JOINS),
        (f"Adding new member {M}", M, None, JOINS),
        (f"explicit `LeaveGroup` request for ({M}) members.", M, None, LEAVES),
        (f"removing member {M} on LeaveGroup", M, None, LEAVES),
        (f"Removing member {M} on LeaveGroup; client reason: consumer poll timeout has expired.", M, Cause.POLL_TIMEOUT, ()),
        (f"removing member {M} on heartbeat expiration.", M, Cause.EXPIRE_HEARTBEAT, ()),
        (f"removing member {M} on heartbeat expiration", M, Cause.EXPIRE_HEARTBEAT, ()),
        (f"Leader {M} re-joining group during Stable; client reason: cached metadata has changed", M, Cause.TOPIC_CHANGE, ()),
        (f"leader {M} re-joining group during Stable", M, None, REJOINS),
        (f"Updating metadata for member {M} during CompletingRebalance; client reason: not provided", M, None, REJOINS),
        (f"Updating metadata for member {M}", M, None, REJOINS),
        (f"Removing [{M}] on pending sync request expiration", M, Cause.SYNC_TIMEOUT, ()),
        (f"Removing Set({M}) on pending sync request expiration", M, Cause.SYNC_TIMEOUT, ()),
        (f"Error UNKNOWN_SERVER_ERROR when storing group assignmentduring SyncGroup (member: {M}).", M, Cause.STORE_ERROR, ()),
        (f"error when storing group assignment during SyncGroup (member: {M})", M, Cause.STORE_ERROR, ()),
        ("Downgrade group g from consumer to classic for member leaving.", None, Cause.MIGRATION, ()),
        ("Downgrade group g from consumer to classic with stale assignment.", None, Cause.MIGRATION, ()),
    ],
)
def test_reasons(reason: str, member_id: str | None, trigger: str | None, candidates: tuple[str, ...]) -> None:
    facts = facts_of(reason)
    assert facts is not None
    assert (facts.get("member_id"), facts.get("trigger"), facts.get("candidates", ())) == (member_id, trigger, candidates)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Updating metadata for static member M with instance id I; client reason: not provided", None),
        (
            "Group's selectedProtocol will change because static member M with instance id I joined with change of protocol; "
            "client reason: not provided",
            Cause.ASSIGNOR_CHANGE,
        ),
        (
            "Group's selectedProtocol will change because static member M with instance id Some(I) joined with change of protocol",
            Cause.ASSIGNOR_CHANGE,
        ),
    ],
)
def test_static_members_are_named_by_their_instance(reason: str, cause: Cause | None) -> None:
    facts = facts_of(reason)
    assert facts is not None
    assert (facts["member_id"], facts["instance_id"], facts["trigger"]) == ("M", "I", cause)


@pytest.mark.parametrize(
    ("reason", "evidence"),
    [
        (
            "Freshly-loaded group g (size 3) is over capacity 2. Rebalancing in order to give a chance for consumers to commit offsets",
            {"group_max_size": 2, "group_size": 3},
        ),
        (
            "Freshly-loaded group is over capacity (2). Rebalacing in order to give a chance for consumers to commit offsets",
            {"group_max_size": 2},
        ),
    ],
)
def test_groups_over_their_capacity(reason: str, evidence: dict[str, int]) -> None:
    assert facts_of(reason) == {"trigger": Cause.CAPACITY, "evidence": evidence}


def test_a_leave_has_the_reasons_of_its_members() -> None:
    memory = Memory()
    memory.leave_reasons = {("g", M): "the consumer is being closed", ("g", N): "consumer poll timeout has expired."}
    facts = facts_of(f"explicit `LeaveGroup` request for ({M}, {N}) members.", memory)
    assert facts == {"trigger": None, "candidates": (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT), "evidence": {"members_left": 2}}
    assert memory.leave_reasons == {}


def test_members_removed_by_their_instance_were_removed_by_an_admin() -> None:
    facts = facts_of("explicit `LeaveGroup` request for () members.")
    assert facts is not None
    assert facts["trigger"] == Cause.ADMIN


def test_the_client_of_a_dynamic_member_is_known_from_then_on() -> None:
    memory = Memory()
    facts_of(f"Adding new member {M} with group instance id null; client reason: not provided", memory)
    facts = facts_of(f"removing member {M} on heartbeat expiration.", memory)
    assert facts is not None
    assert facts["client_id"] == "c"


def test_other_reasons_are_not_known() -> None:
    assert facts_of("just because") is None
