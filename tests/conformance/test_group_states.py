"""The states of a classic group, transition by transition, as Apache Kafka's own tests name them: not read from our own table."""

import pytest

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.states import GroupState, can_rebalance

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)
PATHS = {
    EMPTY: (),
    PREPARING: (PREPARING,),
    COMPLETING: (PREPARING, COMPLETING),
    STABLE: (PREPARING, COMPLETING, STABLE),
    DEAD: (PREPARING, DEAD),
}


def group_in(state: GroupState) -> ClassicGroup:
    group = ClassicGroup("g", now_ms=0)
    for step in PATHS[state]:
        group.transition(step, 0)
    return group


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(EMPTY, DEAD, marks=pytest.mark.conformance("GroupMetadataTest.testEmptyToDeadTransition")),
        pytest.param(PREPARING, DEAD, marks=pytest.mark.conformance("GroupMetadataTest.testPreparingRebalanceToDeadTransition")),
        pytest.param(PREPARING, EMPTY, marks=pytest.mark.conformance("GroupMetadataTest.testPreparingRebalanceToEmptyTransition")),
        pytest.param(
            COMPLETING, PREPARING, marks=pytest.mark.conformance("GroupMetadataTest.testAwaitingRebalanceToPreparingRebalanceTransition")
        ),
        pytest.param(COMPLETING, STABLE, marks=pytest.mark.conformance("GroupMetadataTest.testAwaitingRebalanceToStableTransition")),
        pytest.param(STABLE, PREPARING, marks=pytest.mark.conformance("GroupMetadataTest.testStableToPreparingRebalanceTransition")),
        pytest.param(STABLE, DEAD, marks=pytest.mark.conformance("GroupMetadataTest.testStableToDeadTransition")),
        # Its name says illegal; what it shows is that nothing happens.
        pytest.param(DEAD, DEAD, marks=pytest.mark.conformance("GroupMetadataTest.testDeadToDeadIllegalTransition")),
    ],
)
def test_it_may_go_there(before: GroupState, after: GroupState) -> None:
    group = group_in(before)
    group.transition(after, 1)
    assert group.state is after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(EMPTY, STABLE, marks=pytest.mark.conformance("GroupMetadataTest.testEmptyToStableIllegalTransition")),
        pytest.param(EMPTY, COMPLETING, marks=pytest.mark.conformance("GroupMetadataTest.testEmptyToAwaitingRebalanceIllegalTransition")),
        pytest.param(
            PREPARING,
            PREPARING,
            marks=pytest.mark.conformance("GroupMetadataTest.testPreparingRebalanceToPreparingRebalanceIllegalTransition"),
        ),
        pytest.param(PREPARING, STABLE, marks=pytest.mark.conformance("GroupMetadataTest.testPreparingRebalanceToStableIllegalTransition")),
        pytest.param(
            COMPLETING,
            COMPLETING,
            marks=pytest.mark.conformance("GroupMetadataTest.testAwaitingRebalanceToAwaitingRebalanceIllegalTransition"),
        ),
        pytest.param(STABLE, STABLE, marks=pytest.mark.conformance("GroupMetadataTest.testStableToStableIllegalTransition")),
        pytest.param(DEAD, STABLE, marks=pytest.mark.conformance("GroupMetadataTest.testDeadToStableIllegalTransition")),
        pytest.param(DEAD, PREPARING, marks=pytest.mark.conformance("GroupMetadataTest.testDeadToPreparingRebalanceIllegalTransition")),
        pytest.param(DEAD, COMPLETING, marks=pytest.mark.conformance("GroupMetadataTest.testDeadToAwaitingRebalanceIllegalTransition")),
    ],
)
def test_it_may_not_go_there(before: GroupState, after: GroupState) -> None:
    group = group_in(before)
    with pytest.raises(AssertionError):
        group.transition(after, 1)
    assert group.state is before


@pytest.mark.parametrize(
    ("state", "can"),
    [
        pytest.param(STABLE, True, marks=pytest.mark.conformance("GroupMetadataTest.testCanRebalanceWhenStable")),
        pytest.param(COMPLETING, True, marks=pytest.mark.conformance("GroupMetadataTest.testCanRebalanceWhenCompletingRebalance")),
        pytest.param(PREPARING, False, marks=pytest.mark.conformance("GroupMetadataTest.testCannotRebalanceWhenPreparingRebalance")),
        pytest.param(DEAD, False, marks=pytest.mark.conformance("GroupMetadataTest.testCannotRebalanceWhenDead")),
    ],
)
def test_a_round_can_start_here(state: GroupState, can: bool) -> None:
    assert can_rebalance(group_in(state).state) == can
