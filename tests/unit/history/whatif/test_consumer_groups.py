"""What-if of consumer groups (KIP-848): their settings, and a classic group's behaviour on the new protocol."""

from dataclasses import replace

import pytest

from ottla.history.sources.evidence import Cause
from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour, LeaderRejoin
from ottla.history.whatif.prediction import compare, outcome_with
from ottla.history.whatif.settings import Settings, parse_settings
from tests.support.kit.group_behaviours import POLL_MS, SESSION_MS, behaviour, process

START = Action(at_ms=0, kind=ActionKind.START)
ON_CONSUMER = Settings(protocol="consumer")


def consumer(*processes: object, **fields: object) -> GroupBehaviour:
    return replace(behaviour(*processes, **fields), is_consumer_type=True, protocol="uniform")  # type: ignore[arg-type]


def causes(group: GroupBehaviour, settings: Settings | None = None) -> list[Cause]:
    return [each.cause for each in outcome_with(group, settings or Settings()).rebalances][1:]


def test_a_longer_session_outlasts_a_silence() -> None:
    silence = Action(at_ms=20_000, kind=ActionKind.SILENCE, until_ms=20_000 + SESSION_MS + 8_000)
    group = consumer(process("a", START, silence), process("b", START))
    assert causes(group)[-2:] == [Cause.EXPIRE_HEARTBEAT, Cause.EXPIRE_HEARTBEAT]
    assert Cause.EXPIRE_HEARTBEAT not in causes(group, Settings(session_timeout_ms=SESSION_MS + 10_000, max_poll_interval_ms=60_000))


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    close, again = Action(at_ms=20_000, kind=ActionKind.CLOSE), Action(at_ms=23_000, kind=ActionKind.START)
    group = consumer(process("a", START, close, again), process("b", START))
    assert causes(group).count(Cause.RESTART_DYNAMIC) == 2
    found = compare(group, Settings(is_static=True))
    assert len(found.after.avoided) == 1
    assert found.after.unplanned == 0


def test_a_static_member_that_was_killed_waits_for_its_session() -> None:
    """Its new process is refused until then, and is started again and again."""
    crash, again = Action(at_ms=20_000, kind=ActionKind.CRASH), Action(at_ms=21_000, kind=ActionKind.START)
    group = consumer(replace(process("a", START, crash, again), instance_id="i"), process("b", START))
    found = outcome_with(group, Settings())
    assert found.rebalances[-1].cause is Cause.RESTART_DYNAMIC
    assert found.rebalances[-1].at_ms >= 20_000 + SESSION_MS - 5_000


def test_who_does_not_poll_leaves() -> None:
    gap = Action(at_ms=30_000, kind=ActionKind.POLL_GAP, until_ms=30_000 + POLL_MS + 4_000)
    group = consumer(process("a", START, gap), process("b", START))
    assert causes(group)[-2:] == [Cause.POLL_TIMEOUT, Cause.POLL_TIMEOUT]
    assert Cause.POLL_TIMEOUT not in causes(group, Settings(max_poll_interval_ms=2 * POLL_MS))


def test_a_shorter_heartbeat_interval_moves_partitions_sooner() -> None:
    group = consumer(process("a", START), process("b", START, Action(at_ms=30_000, kind=ActionKind.CLOSE)))
    found = compare(group, Settings(heartbeat_interval_ms=500))
    assert 0 < found.after.stopped_ms < found.before.stopped_ms / 3


def test_a_change_of_topics_moves_nothing_else() -> None:
    group = consumer(process("a", START), process("b", START))
    (_, counts), *_ = group.partition_counts
    grown = replace(group, partition_counts=((0, counts), (40_000, {name: count + 2 for name, count in counts.items()})))
    assert causes(grown)[-1] is Cause.TOPIC_CHANGE
    assert outcome_with(grown, Settings()).rebalances[-1].moved == 0


def test_a_classic_group_on_the_new_protocol() -> None:
    """Its leader's needless rejoins do not happen, and nobody stops what it keeps."""
    group = replace(
        behaviour(process("a", START), process("b", START), process("c", Action(at_ms=40_000, kind=ActionKind.START))),
        leader_rejoins=(LeaderRejoin(60_000, Cause.LEADER_REJOIN_SPURIOUS),),
    )
    found = compare(group, ON_CONSUMER)
    assert found.settings.texts() == {"group.protocol": "consumer"}
    assert [each.cause for each in found.gone] == [Cause.LEADER_REJOIN_SPURIOUS]
    assert not found.new
    back = compare(consumer(process("a", START), process("b", START)), Settings(protocol="classic"))
    assert len(back.after.rebalances) > 0


def test_a_session_that_brokers_refuse_is_warned_of() -> None:
    group = behaviour(process("a", START), process("b", START))
    (warning,) = [each for each in compare(group, Settings(protocol="consumer", session_timeout_ms=20_000)).warnings if "refused" in each]
    assert "group.consumer.min.session.timeout.ms (45000)" in warning


def test_settings_of_the_other_protocol() -> None:
    assert parse_settings(["group.protocol=consumer", "partition.assignment.strategy=uniform"]) == Settings(
        protocol="consumer", assignor="uniform"
    )
    with pytest.raises(ValueError, match="write classic or consumer"):
        parse_settings(["group.protocol=new"])
    with pytest.raises(ValueError, match="'sticky' is no assignor of consumer groups"):
        outcome_with(consumer(process("a", START)), Settings(assignor="sticky"))
