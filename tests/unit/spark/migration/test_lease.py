"""Two runs of a migration into one topic: the second is refused; what a killed one left behind is taken over."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.admin.values import CommittedOffset
from ottla.protocol.model import TopicPartition
from ottla.spark.migration import lease as leases
from ottla.spark.migration.lease import GROUP_PREFIX, STALE_S, Lease
from ottla.spark.migration.values import MigrationError
from ottla.testing import wait_until

GROUP, PLACE = f"{GROUP_PREFIX}narrow", TopicPartition("narrow", 0)


@pytest.fixture(autouse=True)
def _only_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 3600.0)


class Time:
    """Time goes on in pauses, in which something happens."""

    def __init__(self, happens: Callable[[], object] = lambda: None) -> None:
        self.now_s = 0.0
        self.happens = happens

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        self.happens()


def lease(admin: Any, time: Time) -> Lease:
    return Lease(admin, "narrow", pause=time.pause, clock=lambda: time.now_s)


def test_a_second_run_is_refused_while_the_first_renews_its_lease(admin: Any) -> None:
    with lease(admin, Time()) as first:
        time = Time(first.renew)
        with pytest.raises(MigrationError, match=r"another ottla migrate \(process \d+ on .+\) writes into narrow: wait until it"):
            lease(admin, time).__enter__()
        assert time.now_s < 1
        first.check()
    assert GROUP not in admin.commits, "nothing is left of a run that ended"


def test_a_lease_that_a_killed_run_left_is_taken_over(admin: Any) -> None:
    lease(admin, Time()).__enter__()
    time = Time()
    with lease(admin, time) as second:
        assert STALE_S <= time.now_s <= STALE_S + 2
        second.check()


def test_of_two_that_begin_at_once_one_is_refused(admin: Any) -> None:
    others = {PLACE: CommittedOffset(1, metadata="process 7 on h 0123 1")}  # which had found nothing, and writes last
    with pytest.raises(MigrationError, match=r"another ottla migrate \(process 7 on h\)"):
        lease(admin, Time(lambda: admin.commits.update({GROUP: others}))).__enter__()
    assert admin.commits[GROUP] == others


def test_a_run_that_stood_still_and_was_replaced_ends(admin: Any) -> None:
    with lease(admin, Time()) as first:
        admin.commits[GROUP] = {PLACE: CommittedOffset(1, metadata="process 7 on h 0123 1")}
        first.renew()
        with pytest.raises(MigrationError, match=r"another ottla migrate \(process 7 on h\) writes into narrow"):
            first.check()
    assert admin.commits[GROUP][PLACE].metadata.startswith("process 7"), "the other one's is left alone"


def test_a_thread_renews_it(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.001)
    with lease(admin, Time()):
        before = admin.commits[GROUP][PLACE].offset
        wait_until(lambda: admin.commits[GROUP][PLACE].offset > before + 1, "two renewals", seconds=20)


def test_its_group_is_not_carried_over(admin: Any) -> None:
    from ottla.spark.migration.offsets import read_positions

    admin.commits = {"g": {PLACE: CommittedOffset(4)}}
    with lease(admin, Time()):
        assert read_positions(admin, "narrow", None) == {"g": {0: 4}}
