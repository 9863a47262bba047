import pytest

from ottla.history.whatif.behaviour import Action, ActionKind, GroupBehaviour, Process, Reaction
from ottla.history.whatif.settings import RECORDED_DEFAULTS, Settings, apply_settings, merge, parse_settings

GAP = Action(at_ms=1_000, kind=ActionKind.POLL_GAP, until_ms=11_000, uncertain_ms=100)
PROCESS = Process(
    name="a",
    client_id="a",
    client_host="/h",
    instance_id=None,
    session_timeout_ms=6_000,
    rebalance_timeout_ms=8_000,
    topics=frozenset({"t"}),
    actions=(GAP,),
)
BEHAVIOUR = GroupBehaviour(
    group="g",
    started_ms=0,
    ended_ms=20_000,
    protocol="range",
    processes=(PROCESS,),
    partition_counts=(),
    reactions=(Reaction(0, 3_000, 5),),
)


def test_settings_are_read_by_kafkas_names() -> None:
    found = parse_settings(["session.timeout.ms = 45000", "group.instance.id=ON", "partition.assignment.strategy=sticky"])
    assert found == Settings(session_timeout_ms=45_000, is_static=True, assignor="sticky")
    assert found.texts() == {"session.timeout.ms": "45000", "group.instance.id": "on", "partition.assignment.strategy": "sticky"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("session.timeout=5", "did you mean 'session.timeout.ms'"),
        ("fetch.min.bytes=1", "no setting of a what-if"),
        ("session.timeout.ms", "has no value"),
        ("session.timeout.ms=0", "from 1 to"),
        ("session.timeout.ms=" + "9" * 5_000, "from 1 to"),
        ("session.timeout.ms=６０００", "from 1 to"),
        ("group.instance.id=web-1", "write on"),
        ("partition.assignment.strategy=stick", "did you mean 'sticky'"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_settings([text])


def test_only_the_initial_delay_can_be_none() -> None:
    assert parse_settings(["group.initial.rebalance.delay.ms=0"]) == Settings(initial_rebalance_delay_ms=0)
    assert parse_settings(["session.timeout.ms=1"]) == Settings(session_timeout_ms=1)


def test_each_setting_changes_what_it_means() -> None:
    settings = Settings(session_timeout_ms=9_000, max_poll_interval_ms=30_000, max_poll_records=50, is_static=True, assignor="sticky")
    changed = apply_settings(BEHAVIOUR, settings)
    (process,) = changed.processes
    assert (process.session_timeout_ms, process.rebalance_timeout_ms, process.instance_id) == (9_000, 30_000, "a")
    assert process.actions == (Action(at_ms=1_000, kind=ActionKind.POLL_GAP, until_ms=2_000, uncertain_ms=10),)
    assert changed.protocol == "sticky"


def test_heartbeats_more_often_are_noticed_sooner() -> None:
    changed = apply_settings(BEHAVIOUR, Settings(heartbeat_interval_ms=1_000, initial_rebalance_delay_ms=0))
    assert changed.reactions == (Reaction(0, 1_000, 5),)


def test_nothing_set_changes_nothing() -> None:
    assert apply_settings(BEHAVIOUR, Settings()) == BEHAVIOUR


def test_the_second_settings_win() -> None:
    assert merge(RECORDED_DEFAULTS, Settings(max_poll_records=10)) == Settings(heartbeat_interval_ms=3_000, max_poll_records=10)
