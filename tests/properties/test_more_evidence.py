"""More evidence never turns a right verdict into a wrong one that claims certainty: on all recorded incidents, and on made-up ones."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from ottla.history.sources.evidence import Kind, Source
from ottla.history.verdicts.judging import judge
from ottla.history.verdicts.verdict import Confidence, Verdict
from tests.support.kit.evidence import EvidenceLog
from trials.incidents.corpus import CORPUS, RecordedIncident, read_run
from trials.incidents.scoring import Scored, score

CLOSED = "the consumer is being closed"
RUNS = sorted(path.parent for path in (Path(__file__).parents[2] / CORPUS).glob("*/labels.json"))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_source_added_in_turn(run: Path) -> None:
    wrong = [line for recorded in read_run(run) for line in _turned_wrong(recorded)]
    assert wrong == []


def _turned_wrong(recorded: RecordedIncident) -> list[str]:
    available = sorted(source for source, items in recorded.evidence.items() if items)
    scores = {
        frozenset(chosen): _score(recorded, chosen) for count in range(1, len(available) + 1) for chosen in combinations(available, count)
    }
    wrong = []
    pairs = [(chosen, one) for chosen in scores for one in set(available) - chosen]
    for fewer, one in pairs:
        for at, rebalances in scores[fewer | {one}].items():
            before = scores[fewer].get(at, [])
            was_right = bool(before) and all(rebalance.is_right for rebalance in before)
            turned = [rebalance.found for rebalance in rebalances if was_right and rebalance.is_high and not rebalance.is_right]
            wrong += [f"{recorded.incident.id}: {before[0].label.cause} by {sorted(fewer)}, {cause} with {one}" for cause in turned]
    return wrong


def _score(recorded: RecordedIncident, sources: Sequence[Source]) -> dict[int, list[Scored]]:
    """By label."""
    evidence = [item for source in sources for item in recorded.evidence[source]]
    scores: dict[int, list[Scored]] = defaultdict(list)
    for each in score(recorded.incident, judge(evidence).get(recorded.incident.group, [])):
        scores[recorded.incident.rebalances.index(each.label)].append(each)
    return scores


class Group:
    """A made-up group of Java members: the coordinator's log, and one of each client, which says with which assignor it joined."""

    def __init__(self, *clients: str, assignor: str = "range") -> None:
        self.broker = EvidenceLog(Source.BROKER_LOG)
        self.clients = {name: EvidenceLog(Source.CLIENT_LOG, clock=f"{name}.log") for name in clients}
        self.ids = {name: f"{name}-1" for name in clients}
        self.present = list(clients)
        self.assignor = assignor
        self.generation = 0
        for at, name in enumerate(clients):
            self.broker.join(self.ids[name], 0, after_ms=10, client_id=name, coalesced=at > 0)
        self.rebalance()

    def rebalance(self, *, heard_by: Sequence[str] | None = None) -> None:
        self.generation += 1
        if not self.present:
            self.broker.add(Kind.EMPTIED, 10, generation=self.generation)
            return
        self.broker.rebalance(self.generation, count=len(self.present))
        for name in self.present if heard_by is None else heard_by:
            self.clients[name].add(
                Kind.CLIENT_JOINED, 20, generation=self.generation, member_id=self.ids[name], client_id=name, protocol=self.assignor
            )

    def expire(self, name: str) -> None:
        self.broker.expire(self.ids[name], self.generation, client_id=name)
        self.present.remove(name)
        self.rebalance()

    def close(self, name: str) -> None:
        self.say_close(name)
        self.broker.leave(self.ids[name], self.generation, client_reason=CLOSED, client_id=name)
        self.present.remove(name)
        self.rebalance()

    def say_close(self, name: str) -> None:
        self.clients[name].add(
            Kind.CLIENT_LEAVES, 10, member_id=self.ids[name], client_id=name, trigger="LEAVE_CLOSE", client_reason=CLOSED
        )

    def come_back(self, *names: str, is_named: bool = True, heard_by: Sequence[str] | None = None) -> None:
        """`is_named`: whether the coordinator's log says the client id."""
        for at, name in enumerate(names):
            self.ids[name] = f"{name}-{self.generation + 10}"
            self.broker.join(
                self.ids[name], self.generation, after_ms=0 if at else 2_000, client_id=name if is_named else None, coalesced=at > 0
            )
        self.present += names
        self.rebalance(heard_by=heard_by)

    def migrate(self, *names: str) -> None:
        """Members of KIP-848 join, two of whose epochs get one assignment."""
        modern = {"group_type": "consumer"}
        for at, name in enumerate(names):
            self.generation += 1
            self.ids[name] = f"random-{at}"
            self.broker.add(Kind.MEMBER_JOINED, 10 if at else 2_000, member_id=self.ids[name], **modern)
            self.broker.add(Kind.JOIN_COMPLETED, 1, generation=self.generation, **modern)
            self.clients[name].add(
                Kind.CLIENT_JOINED, 3_000, generation=self.generation, member_id=self.ids[name], client_id=name, **modern
            )
        self.broker.add(Kind.SYNC_COMPLETED, 5, generation=self.generation, **modern)

    def verdicts(self, *clients: str) -> list[Verdict]:
        """By the coordinator's log and those of some clients."""
        return judge([*self.broker.lines, *(item for name in clients for item in self.clients[name].lines)])["g"]

    def every_subset(self) -> list[tuple[str, ...]]:
        return [chosen for count in range(len(self.clients) + 1) for chosen in combinations(self.clients, count)]


def certain_causes(verdicts: Sequence[Verdict]) -> dict[int | None, str]:
    return {each.generation: each.cause.value for each in verdicts if each.confidence is Confidence.HIGH}


def test_a_close_in_the_log_of_a_member_that_expired_is_another_one() -> None:
    group = Group("a", "b")
    group.expire("a")
    group.come_back("a", heard_by=["b"])  # the client's log does not say that it joined again
    group.say_close("a")
    for clients in group.every_subset():
        assert certain_causes(group.verdicts(*clients))[2] == "EXPIRE_HEARTBEAT", clients


def test_a_close_in_the_log_of_an_expired_member_of_kip_848_is_no_certainty() -> None:
    broker, client = EvidenceLog(Source.BROKER_LOG, group_type="consumer"), EvidenceLog(Source.CLIENT_LOG, group_type="consumer")
    for at, name in enumerate("ab"):
        broker.add(Kind.MEMBER_JOINED, 10, member_id=name, client_id=name)
        broker.rebalance(2 + at, count=1 + at)
    broker.add(Kind.MEMBER_REMOVED, 60_000, member_id="a", client_id="a", trigger="EXPIRE_HEARTBEAT")
    broker.rebalance(4, count=1)
    client.add(Kind.CLIENT_JOINED, 100, generation=3, member_id="a", client_id="a")
    client.add(Kind.CLIENT_LEAVES, 100, member_id="a", client_id="a", trigger="LEAVE_CLOSE")
    assert judge(broker.lines)["g"][-1].cause == "EXPIRE_HEARTBEAT"
    assert certain_causes(judge([*broker.lines, *client.lines])["g"]).get(4) in (None, "EXPIRE_HEARTBEAT")


@pytest.mark.parametrize("flips_when", ["the last one leaves", "the last one is back"])
def test_a_rolling_change_of_assignors_is_no_certain_restart(flips_when: str) -> None:
    group = Group("a", "b", "c")
    for name in "abc":
        is_last = name == "c"
        if is_last and flips_when == "the last one leaves":
            group.assignor = "cooperative-sticky"
        group.close(name)
        if is_last:
            group.assignor = "cooperative-sticky"
        group.come_back(name)
    for clients in group.every_subset()[1:]:
        verdicts = group.verdicts(*clients)[1:]
        assert len(verdicts) == 6
        assert {each.cause for each in verdicts} == {"ASSIGNOR_CHANGE"}, clients
        assert "RESTART_DYNAMIC" not in certain_causes(verdicts).values()


def test_a_group_that_starts_again_as_a_whole_is_no_certain_restart() -> None:
    group = Group("a", "b")
    group.close("a")
    group.close("b")
    group.come_back("a", "b", is_named=False)
    assert certain_causes(group.verdicts())[4] == "COLD_START"
    for clients in group.every_subset():
        assert certain_causes(group.verdicts(*clients)).get(4) in (None, "COLD_START"), clients


def test_a_group_that_is_migrated_while_it_is_empty_is_no_certain_restart() -> None:
    group = Group("a", "b")
    group.close("a")
    group.close("b")
    group.migrate("a", "b")
    assert certain_causes(group.verdicts())[5] == "COLD_START"
    for clients in group.every_subset():
        verdicts = group.verdicts(*clients)
        assert [each.generation for each in verdicts] == [1, 2, 3, 5], clients  # epochs 4 and 5 are one rebalance
        assert certain_causes(verdicts).get(5) in (None, "COLD_START", "MIGRATION"), clients


def test_one_restart_in_a_group_is_certain_by_the_log_of_the_one_that_restarted() -> None:
    group = Group("a", "b")
    group.close("a")
    group.come_back("a")
    for clients in group.every_subset():
        verdicts = group.verdicts(*clients)
        assert {each.generation: each.cause.value for each in verdicts}[3] == "RESTART_DYNAMIC", clients
        # The coordinator's log alone is not enough for the threshold that is fitted to days on which much happens at once.
        assert certain_causes(verdicts).get(3) == ("RESTART_DYNAMIC" if "a" in clients else None), clients


def test_restarts_far_from_a_change_of_assignors_are_certain() -> None:
    group = Group("a", "b")
    group.close("a")
    group.come_back("a")
    for log in (group.broker, *group.clients.values()):
        log.now_ms += 3_600_000
    group.assignor = "sticky"
    group.close("b")
    group.come_back("b")
    causes = certain_causes(group.verdicts("a", "b"))
    assert (causes[2], causes[3]) == ("RESTART_DYNAMIC", "RESTART_DYNAMIC")
    assert causes[4] == "ASSIGNOR_CHANGE"


def test_a_member_that_started_beside_another_of_its_name_is_not_its_successor() -> None:
    broker = EvidenceLog(Source.BROKER_LOG)
    broker.join("app-1", 0, after_ms=10, client_id="app")
    broker.rebalance(1, count=1)
    broker.join("app-2", 1, after_ms=500, client_id="app")
    broker.rebalance(2, count=2)
    broker.expire("app-1", 2, client_id="app")
    broker.rebalance(3, count=1)
    assert certain_causes(judge(broker.lines)["g"]).get(3) in (None, "EXPIRE_HEARTBEAT")


def test_a_log_that_begins_after_a_restart_does_not_make_it_a_new_member() -> None:
    """Of KIP-848 members a broker's log has random ids only: the client's log names the new one, and not the one before."""
    modern = {"group_type": "consumer"}
    broker, client = EvidenceLog(Source.BROKER_LOG, **modern), EvidenceLog(Source.CLIENT_LOG, **modern)
    for at, name in enumerate(("random-1", "random-2")):
        broker.add(Kind.MEMBER_JOINED, 10, member_id=name)
        broker.rebalance(2 + at, count=1 + at)
    broker.add(Kind.MEMBER_LEFT, 60_000, member_id="random-1")
    broker.rebalance(4, count=1)
    broker.add(Kind.MEMBER_JOINED, 2_000, member_id="random-3")
    broker.rebalance(5, count=2)
    client.add(Kind.CLIENT_JOINED, 100, generation=5, member_id="random-3", client_id="app")
    for evidence in (broker.lines, [*broker.lines, *client.lines]):
        verdict = judge(evidence)["g"][-1]
        assert (verdict.cause, verdict.confidence < Confidence.HIGH) == ("RESTART_DYNAMIC", True)
