"""The plan of the corpus: every cause, enough incidents, the same for the same seed."""

from collections import Counter

import pytest

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.testing.incidents.actions.table import ACTIONS
from ottla.testing.incidents.plan import BROKER_RESTART, STORE_ERROR, plans

WITHOUT_KIP_848 = {Cause.UNKNOWN, Cause.MIGRATION}


def test_apache_kafka_has_every_cause_and_client() -> None:
    planned = plans("apache-kafka", 1)
    causes = Counter(plan.cause for plan in planned)
    assert set(causes) == set(Cause) - {Cause.UNKNOWN}
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
