"""Each action says what it causes: in a world without brokers, in virtual time."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.cli.processes import ToolMissing
from ottla.groups.events import GroupEvent
from ottla.history.sources.evidence import Cause
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until
from trials.incidents import record as record_module
from trials.incidents.actions import ACTIONS
from trials.incidents.group_run import GroupRun, NotStable, Plan
from trials.incidents.handles import RawConsumer
from trials.incidents.members.program import MODULES, MemberSettings, Slowness
from trials.incidents.plan import BROKER_RESTART, STORE_ERROR, TABLE, plans
from trials.incidents.record import Recorder, client_logs, fail_to_store, record, restart_broker, start_groups, wait_until_loaded
from trials.incidents.world import World

WITH_REQUESTS = {"never_sync"}
"""Its silent member is made of real requests: test_raw_consumer.py."""
CAUSES = {row.action: row.cause for row in TABLE if row.action in ACTIONS}


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - WITH_REQUESTS))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_action_labels_its_cause(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun], action: str, seed: int) -> None:
    run = new_run(new_plan(action, cause=CAUSES[action], seed=seed))
    ACTIONS[action](run)
    incident = run.finish()
    caused = [each for each in incident.rebalances if each.is_action]
    expected = Cause.JOIN_NEW if action == "join" else CAUSES[action]
    assert {each.cause for each in caused} == {expected}
    times = [(each.from_ms, each.to_ms) for each in incident.rebalances]
    assert times == sorted(times)
    assert all(begin < end for begin, end in times)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times)), "no time has two labels"
    assert incident.end_ms >= times[-1][1]


# --- the plan of the corpus: every cause, enough incidents, the same for the same seed

NOT_RECORDED = {Cause.UNKNOWN, Cause.FAILED_JOIN}
"""Members that are refused are in the recorded days alone."""
WITHOUT_KIP_848 = NOT_RECORDED | {Cause.MIGRATION}


def test_apache_kafka_has_every_cause_and_client() -> None:
    planned = plans("apache-kafka", 1)
    causes = Counter(plan.cause for plan in planned)
    assert set(causes) == set(Cause) - NOT_RECORDED
    assert min(causes.values()) >= 4
    assert len(planned) >= 150
    assert {client for plan in planned for client in plan.clients} == {"java", "confluent", "kafka-python", "aiokafka", "raw"}
    assert {plan.protocol for plan in planned} == {"classic", "consumer"}


def test_ottla_has_every_cause_of_the_classic_protocol() -> None:
    planned = plans("ottla", 1)
    assert {plan.cause for plan in planned} == set(Cause) - WITHOUT_KIP_848
    assert {plan.protocol for plan in planned} == {"classic"}
    assert len(planned) >= 60


@pytest.mark.parametrize("cluster", ["apache-kafka", "ottla"])
def test_a_seed_makes_the_same_plans_and_other_seeds_others(cluster: str) -> None:
    assert plans(cluster, 1) == plans(cluster, 1)
    assert [plan.clients for plan in plans(cluster, 1)] != [plan.clients for plan in plans(cluster, 2)]


@pytest.mark.parametrize("seed", range(5))
def test_each_plan_can_be_made(seed: int) -> None:
    for plan in plans("apache-kafka", seed):
        assert plan.action in {*ACTIONS, STORE_ERROR, BROKER_RESTART}
        assert 0 <= plan.actor < len(plan.clients)
        if plan.protocol == "consumer" or plan.assignor == "cooperative-sticky":
            assert set(plan.clients) <= {"java", "confluent"}


def test_some_actions_alone() -> None:
    assert {plan.action for plan in plans("ottla", 1, actions=["join", "kill"])} == {"join", "kill"}


# --- incidents of a whole broker: all their groups are labelled


def test_the_last_member_joins_while_the_assignment_cannot_be_stored(
    new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]
) -> None:
    run = new_run(new_plan("store_error", cause=Cause.STORE_ERROR))
    start_groups([run])
    assert set(run.members) == {0, 1}
    fail_to_store([run])
    assert set(run.members) == {0, 1, 2}
    (label,) = (each for each in run.finish().rebalances if each.is_action)
    assert (label.cause, label.also) == (Cause.STORE_ERROR, (Cause.JOIN_NEW, Cause.LEADER_REJOIN_SPURIOUS, Cause.LEAVE_CLOSE))
    done = [each for each in run.world.done if each.startswith("__consumer_offsets")]  # type: ignore[attr-defined]
    assert len(done) == 2
    assert done[-1].endswith("=1048588")


def test_groups_that_do_not_become_stable_are_left_out(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    good, bad = new_run(new_plan("broker_restart", id="good")), new_run(new_plan("broker_restart", id="bad"))
    bad.topics["missing"] = 0
    bad.world.members = [type("Greedy", (), {"is_active": True, "back_at": 0.0})()]  # type: ignore[attr-defined]
    assert start_groups([good, bad]) == [good]


def test_a_restart_is_certain_to_shrink_the_groups_that_are_too_large(
    new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]
) -> None:
    large = new_run(new_plan("broker_restart", cause=Cause.CAPACITY))
    small = new_run(new_plan("broker_restart", id="s2", cause=Cause.COORDINATOR_MOVE, clients=("java",), actor=0))
    for run in (large, small):
        start_groups([run])
        run.world.members.clear()  # type: ignore[attr-defined]
    restarts: list[str] = []
    restart_broker([large, small], lambda: restarts.append("now"))
    assert restarts == ["now"]
    labels = [[each for each in run.finish().rebalances if each.is_action] for run in (large, small)]
    assert [(each.cause, each.is_certain) for (each,) in labels] == [(Cause.CAPACITY, True), (Cause.COORDINATOR_MOVE, False)]


def test_a_coordinator_that_has_loaded_is_not_waited_for() -> None:
    with Broker() as broker:
        wait_until_loaded(broker.bootstrap_servers, "g")


# --- the recorder: keeps what went well, prints what did not, and collects the logs of clients


@pytest.fixture
def recorder(new_run: Callable[[Plan], GroupRun], new_plan: Callable[..., Plan]) -> Recorder:
    world = new_run(new_plan("join", id="other")).world
    return Recorder(SimpleNamespace(kind="scene"), world, run="scene-1")  # type: ignore[arg-type]


def test_an_incident_is_kept_and_a_failed_one_is_not(recorder: Recorder, new_plan: Callable[..., Plan], monkeypatch: Any) -> None:
    def fail(run: GroupRun) -> None:
        raise NotStable("never")

    monkeypatch.setitem(record_module.ACTIONS, "kill", fail)
    record(recorder, [new_plan("join"), new_plan("kill")], at_once=1)
    assert [each.id for each in recorder.incidents] == ["s-join"]
    assert len(recorder.failed) == 1
    assert "never" in recorder.failed[0]


def test_logs_are_those_of_own_processes_and_of_the_shared_one(recorder: Recorder, new_plan: Callable[..., Plan]) -> None:
    record(recorder, [new_plan("join")], at_once=1)
    (incident,) = recorder.incidents
    world = recorder._world
    world.shared_java_log.write_text(f"[Consumer clientId=x, groupId={incident.group}] joined\n")
    logs = client_logs(world, [incident])
    assert set(logs) == {
        "s-join/application.java.log",
        *(f"s-join/{incident.group}-{n}.{client}.log" for n, client in ((1, "java"), (2, "confluent"), (3, "aiokafka"))),
    }


# --- the world of incidents: topics with records, and members of a Java and a Python client that share a group, on Ottla's broker


@pytest.fixture
def world(reference: Any, tmp_path: Path) -> Iterator[World]:
    with Broker(config={"group.initial.rebalance.delay.ms": "0", "auto.create.topics.enable": "false"}) as broker:
        try:
            made = World(broker.bootstrap_servers, tmp_path, class_path=reference.class_path())
        except ToolMissing as missing:
            pytest.skip(str(missing))
        with made as world:
            yield world


def test_members_of_two_clients_share_a_topic(world: World, tmp_path: Path) -> None:
    world.create_topic("t", 2)
    world.add_partitions("t", 4)
    world.set_topic_config("t", "max.message.bytes", "1000")
    members = []
    for client in ("java", "confluent"):
        settings = MemberSettings(name=client, client=client, servers=world.servers, group="g", topics=("t",), client_id=client)
        members.append(world.start_member(settings, tmp_path / f"{client}.log", is_alone=False))
    wait_until(lambda: sorted(len(each.assignment()) for each in members) == [2, 2], "both have partitions", seconds=30)
    world.remove_all_members("g", "drain")
    wait_until(lambda: world.shared_java_log.read_text().count("Successfully joined group") > 1, "the Java member joins again", seconds=30)
    for each in members:
        each.close()
    assert "Successfully joined group" in world.shared_java_log.read_text()
    world.stop_producing(["t"])
    assert world.topics == {}
    world.create_topic("old", 1)
    world.delete_topic("old")
    assert world.topics == {}


# --- a member of bare requests: leads, rejoins with nothing changed, and never syncs if that is wanted

CONFIG = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}


def test_two_share_the_partitions_and_the_leader_may_join_again_for_no_reason() -> None:
    events: list[GroupEvent] = []
    with Broker(config=CONFIG, on_group_event=events.append) as broker:
        create_topic(broker.bootstrap_servers, "t", 3)
        consumers = [RawConsumer(broker.bootstrap_servers, "g", {"t": 3}, client_id=f"raw-{number}") for number in (1, 2)]
        wait_until(lambda: sorted(map(len, (each.assignment for each in consumers))) == [1, 2], "both have partitions", seconds=60)
        seen = len(events)
        next(each for each in consumers if each.leads).rejoin()
        wait_until(lambda: any(each.trigger == "LEADER_REJOIN" for each in events[seen:]), "a needless rebalance", seconds=60)
        for each in consumers:
            each.close()


def test_one_that_never_syncs_is_removed() -> None:
    events: list[GroupEvent] = []
    with Broker(config=CONFIG, on_group_event=events.append) as broker:
        create_topic(broker.bootstrap_servers, "t", 1)
        leader = RawConsumer(broker.bootstrap_servers, "g", {"t": 1}, client_id="leader", timeout_ms=1_000)
        wait_until(lambda: bool(leader.assignment), "a leader", seconds=60)
        silent = RawConsumer(broker.bootstrap_servers, "g", {"t": 1}, client_id="silent", timeout_ms=1_000, syncs=False)
        wait_until(lambda: any(each.trigger == "SYNC_TIMEOUT" for each in events), "the removal", seconds=60)
        leader.close()
        silent.close()
        assert silent.assignment == set()


# --- the life of one member of an incident on Ottla's broker, with each client: it gets partitions, subscribes to others, and leaves

SECONDS_MAX = 20


async def live(module: str, name: str, **changes: Any) -> None:
    """Join, poll, subscribe to another topic, unsubscribe and close."""
    make_client = import_module(f"trials.incidents.members.{module}").make_client
    with Broker(config={"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}) as broker:
        create_topic(broker.bootstrap_servers, "members", 2)
        create_topic(broker.bootstrap_servers, "others", 1)
        fields: dict[str, Any] = {"topics": ("members",), "heartbeat_ms": 300, "metadata_ms": 300} | changes
        settings = MemberSettings(name=name, client=name, client_id=name, servers=broker.bootstrap_servers, group="g", **fields)
        client = make_client(settings, Slowness())
        await client.start()
        await _polled(client, {"members-0", "members-1"})
        if settings.pattern is None:
            await client.subscribe(["others"])
            await _polled(client, {"others-0"})
        if settings.instance_id is None:
            await client.unsubscribe()
        await client.close()
        with RawClient(broker.bootstrap_servers) as raw:
            group = raw.call(ApiKey.DESCRIBE_GROUPS, 0, groups=["g"]).groups[0]
        assert len(group.members) == (1 if settings.instance_id else 0), "a dynamic member leaves, a static one does not"


async def _polled(client: Any, expected: set[str]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while client.assignment() != expected:
        assert time.monotonic() < deadline, f"{client.assignment()} instead of {expected}"
        await client.poll()


@pytest.mark.parametrize("name", MODULES)
def test_a_member_lives_and_leaves(name: str) -> None:
    asyncio.run(asyncio.wait_for(live(MODULES[name], name), 60))


@pytest.mark.parametrize("name", MODULES)
def test_a_static_member_may_subscribe_by_pattern(name: str) -> None:
    asyncio.run(asyncio.wait_for(live(MODULES[name], name, instance_id="one", pattern="mem.*"), 60))
