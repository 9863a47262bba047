"""The pipeline's shape; what it computes is compared with the plain reference in tests/spark."""

from ottla.core.diagnosis.rebalances import MEMBERSHIP, PHASES, PLANS, STARTS_UNLESS_AFTER
from ottla.spark.pipelines.rebalances import PIPELINE
from ottla.spark.schemas import KAFKA, REBALANCES


def test_from_records_to_one_table():
    assert dict(PIPELINE.inputs) == {"group_event_records": KAFKA}
    assert dict(PIPELINE.outputs) == {"rebalances": REBALANCES}
    assert [step.output for step in PIPELINE.steps][-1] == "rebalances"


def test_the_kinds_that_make_rounds_are_among_those_it_keeps():
    assert set(MEMBERSHIP) | set(PLANS) | set(STARTS_UNLESS_AFTER) | set(STARTS_UNLESS_AFTER.values()) == set(PHASES)
