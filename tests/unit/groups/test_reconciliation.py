"""The reconciliation of one member, row by row, as Apache Kafka's own tests of it have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from ottla.groups.consumer.member import ConsumerMember, ReconciliationState
from ottla.groups.consumer.reconciliation import MemberSituation, RequestRefused, reconcile
from ottla.protocol.errors import ErrorCode

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = ReconciliationState
A, B = b"a" * 16, b"b" * 16
Given = Mapping[bytes, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A member at epoch 10 in `state`, and what comes of it: state, epoch, assigned, pending. `owned`: what it says that it has."""

    state: ReconciliationState
    target: Given
    expected: tuple[ReconciliationState, int, Given, Given]
    assigned: Given = field(default_factory=lambda: {A: (1, 2)})
    pending: Given = field(default_factory=dict)
    owned: Given | None = None
    others: Given = field(default_factory=dict)
    epoch: int = 11
    subscribed: frozenset[bytes] = frozenset({A, B})
    subscription_changed: bool = False

    def run(self) -> ConsumerMember:
        member = ConsumerMember(
            member_id="m",
            member_epoch=10,
            previous_member_epoch=9,
            state=self.state,
            assigned={topic: dict.fromkeys(numbers, 10) for topic, numbers in self.assigned.items()},
            pending={topic: dict.fromkeys(numbers, 10) for topic, numbers in self.pending.items()},
        )
        return reconcile(
            member,
            MemberSituation(
                target_epoch=self.epoch,
                target={topic: frozenset(numbers) for topic, numbers in self.target.items()},
                subscribed=self.subscribed,
                subscription_changed=self.subscription_changed,
                owned=None if self.owned is None else {topic: frozenset(numbers) for topic, numbers in self.owned.items()},
                owner_epoch=lambda topic, number: 10 if number in self.others.get(topic, ()) else -1,
            ),
        )


def case(name: str, *args: object, **values: object) -> object:
    return pytest.param(Case(*args, **values), id=name)  # type: ignore[arg-type]


ONLY_B = frozenset({B})


@pytest.mark.conformance(
    "CurrentAssignmentBuilderTest.testStableToStable",
    "CurrentAssignmentBuilderTest.testStableToStableWithNewPartitions",
    "CurrentAssignmentBuilderTest.testStableToUnrevokedPartitions",
    "CurrentAssignmentBuilderTest.testStableToUnreleasedPartitions",
    "CurrentAssignmentBuilderTest.testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions",
    "CurrentAssignmentBuilderTest.testStableToStableWithAssignmentTopicsNoLongerInSubscription",
    "CurrentAssignmentBuilderTest.testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription",
    "CurrentAssignmentBuilderTest.testUnrevokedPartitionsToStable",
    "CurrentAssignmentBuilderTest.testRemainsInUnrevokedPartitions",
    "CurrentAssignmentBuilderTest.testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription",
    "CurrentAssignmentBuilderTest.testUnrevokedPartitionsToUnrevokedPartitions",
    "CurrentAssignmentBuilderTest.testUnrevokedPartitionsToUnreleasedPartitions",
    "CurrentAssignmentBuilderTest.testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation",
    "CurrentAssignmentBuilderTest.testUnreleasedPartitionsToStable",
    "CurrentAssignmentBuilderTest.testUnreleasedPartitionsToStableWithNewPartitions",
    "CurrentAssignmentBuilderTest.testUnreleasedPartitionsToUnreleasedPartitions",
    "CurrentAssignmentBuilderTest.testUnreleasedPartitionsToUnrevokedPartitions",
)
@pytest.mark.parametrize(
    "each",
    [
        case("testStableToStable", STABLE, {A: (1, 2)}, (STABLE, 11, {A: (1, 2)}, {})),
        case("testStableToStableWithNewPartitions", STABLE, {A: (1, 2, 4)}, (STABLE, 11, {A: (1, 2, 4)}, {})),
        case("testStableToUnrevokedPartitions", STABLE, {A: (2, 3)}, (UNREVOKED, 10, {A: (2,)}, {A: (1,)})),
        case("testStableToUnreleasedPartitions", STABLE, {A: (1, 2, 4)}, (UNRELEASED, 11, {A: (1, 2)}, {}), others={A: (4,)}),
        case(
            "testStableToUnreleasedPartitionsWithOwnedPartitionsNotHavingRevokedPartitions",
            STABLE,
            {A: (2, 3)},
            (UNRELEASED, 11, {A: (2,)}, {}),
            owned={A: (2,)},
            others={A: (3,)},
        ),
        case(
            "testStableToStableWithAssignmentTopicsNoLongerInSubscription",
            STABLE,
            {A: (1, 2), B: (3,)},
            (STABLE, 10, {B: (3,)}, {}),
            assigned={A: (1, 2), B: (3,)},
            owned={B: (3,)},
            epoch=10,
            subscribed=ONLY_B,
            subscription_changed=True,
        ),
        case(
            "testStableToUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription",
            STABLE,
            {A: (1, 2), B: (3,)},
            (UNREVOKED, 10, {B: (3,)}, {A: (1, 2)}),
            assigned={A: (1, 2), B: (3,)},
            owned={A: (1, 2), B: (3,)},
            epoch=10,
            subscribed=ONLY_B,
            subscription_changed=True,
        ),
        case("testUnrevokedPartitionsToStable", UNREVOKED, {A: (1,)}, (STABLE, 11, {A: (1,)}, {}), {A: (1,)}, {A: (2,)}, owned={A: (1,)}),
        case("testRemainsInUnrevokedPartitions", UNREVOKED, {A: (3,)}, (UNREVOKED, 10, {A: (2,)}, {A: (1,)}), {A: (2,)}, {A: (1,)}),
        case(
            "testRemainsInUnrevokedPartitionsWithAssignmentTopicsNoLongerInSubscription",
            UNREVOKED,
            {B: (3,)},
            (UNREVOKED, 10, {B: (3,)}, {A: (1, 2)}),
            {A: (2,), B: (3,)},
            {A: (1,)},
            owned={A: (1, 2), B: (3,)},
            subscribed=ONLY_B,
            subscription_changed=True,
        ),
        case(
            "testUnrevokedPartitionsToUnrevokedPartitions",
            UNREVOKED,
            {A: (3,)},
            (UNREVOKED, 10, {}, {A: (2,)}),
            {A: (2,)},
            {A: (1,)},
            owned={A: (2,)},
        ),
        case(
            "testUnrevokedPartitionsToUnreleasedPartitions",
            UNREVOKED,
            {A: (2, 4)},
            (UNRELEASED, 11, {A: (2,)}, {}),
            {A: (2,)},
            {A: (1,)},
            owned={A: (2,)},
            others={A: (4,)},
        ),
        case(
            "testUnrevokedPartitionsToStableWithReturnedPartitionsPendingRevocation",
            UNREVOKED,
            {A: (1, 2)},
            (STABLE, 11, {A: (1, 2)}, {}),
            {A: (2,)},
            {A: (1,)},
            owned={A: (2,)},
            others={A: (1,)},
        ),
        case("testUnreleasedPartitionsToStable", UNRELEASED, {A: (1, 2)}, (STABLE, 11, {A: (1, 2)}, {})),
        case("testUnreleasedPartitionsToStableWithNewPartitions", UNRELEASED, {A: (1, 2, 4)}, (STABLE, 10, {A: (1, 2, 4)}, {}), epoch=10),
        case(
            "testUnreleasedPartitionsToUnreleasedPartitions",
            UNRELEASED,
            {A: (1, 2, 4)},
            (UNRELEASED, 10, {A: (1, 2)}, {}),
            others={A: (4,)},
            epoch=10,
        ),
        case("testUnreleasedPartitionsToUnrevokedPartitions", UNRELEASED, {A: (2,)}, (UNREVOKED, 10, {A: (2,)}, {A: (1,)})),
    ],
)
def test_one_step(each: Case) -> None:
    member = each.run()
    state, epoch, assigned, pending = each.expected
    assert (member.state, member.member_epoch) == (state, epoch)
    assert {topic: tuple(sorted(numbers)) for topic, numbers in member.assigned.items()} == assigned
    assert {topic: tuple(sorted(numbers)) for topic, numbers in member.pending.items()} == pending


@pytest.mark.conformance("CurrentAssignmentBuilderTest.testUnknownState")
@pytest.mark.parametrize("owned", [None, {A: (1,)}])
def test_a_member_in_a_state_that_is_not_known_must_give_up_all(owned: Given | None) -> None:
    with pytest.raises(RequestRefused) as refused:
        Case(UNKNOWN, {A: (1,)}, (STABLE, 11, {}, {}), owned=owned).run()
    assert refused.value.error is ErrorCode.FENCED_MEMBER_EPOCH
    assert Case(UNKNOWN, {A: (1,)}, (STABLE, 11, {}, {}), owned={}).run().state is STABLE
