"""The course of a migration on a scripted cluster, with a scripted target; with brokers: tests/spark/test_migrate.py."""

from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from ottla.client.admin.values import CommittedOffset
from ottla.client.settings import ClientSettings
from ottla.protocol.model import TopicPartition
from ottla.spark.migration import job
from ottla.spark.migration.job import Migrated, MigrationRun
from ottla.spark.migration.offsets import Carried
from ottla.spark.migration.topics import Admins, Shape
from ottla.spark.migration.values import Cluster, Extent, Migration, MigrationError, Progress
from ottla.spark.sink.producer_settings import parse_producer_settings

HERE = Cluster(client=ClientSettings(bootstrap_servers="h:1"), producer=parse_producer_settings({"bootstrap.servers": "h:1"}))
PLANNED = Migration(source_cluster=HERE, target_cluster=HERE, source="wide", target="narrow")
SOURCE_0, TARGET_0 = TopicPartition("wide", 0), TopicPartition("narrow", 0)


class ScriptedFilling:
    """A target that gets whatever it is asked for."""

    def __init__(self, *_arguments: Any, **options: Any) -> None:
        self.calls: list[Any] = made
        self.report = options["report"]
        self.done = self.written = self.gone = 0

    def begin(self, *, is_compacted: bool) -> None:
        self.calls.append("begin")

    def copy_up_to(self, ends: dict[int, Extent], positions: Any) -> None:
        self.calls.append((ends[0].end, dict(positions)))
        self.done = self.written = ends[0].end
        while during_copy:
            during_copy.pop()()

    def replay(self, positions: Any) -> dict[str, int]:
        self.calls.append("replay")
        return {group: self.written - offsets[0] for group, offsets in positions.items()}

    def verify_some(self) -> None:
        self.verified = self.written

    def verify(self, positions: Any) -> dict[str, Carried]:
        self.calls.append("verify")
        return {group: Carried({0: offsets[0]}, 1) for group, offsets in positions.items()}


class ScriptedLease(nullcontext[Any]):
    """Held, until the test says that it is lost."""

    is_lost = False

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        super().__init__(self)

    def check(self) -> None:
        if self.is_lost:
            raise MigrationError("another one")


made: list[Any] = []
during_copy: list[Any] = []


@pytest.fixture
def log(admin: Any) -> Any:
    """The source with all records; by default it has the same ones."""
    seen = type(admin)()
    seen.extents = admin.extents
    return seen


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, admin: Any, log: Any) -> list[Any]:
    @contextmanager
    def connected(_migration: Migration) -> Any:
        yield Admins(source=admin, source_log=log, target=admin, lease=admin)

    made.clear()
    admin.extents |= {"wide": [Extent(0, 5)], "narrow": [Extent(0, 0)]}
    during_copy.clear()
    admin.commits = {"g": {SOURCE_0: CommittedOffset(4)}}
    monkeypatch.setattr(job, "connect", connected)
    monkeypatch.setattr(job, "Filling", ScriptedFilling)
    monkeypatch.setattr(job, "Lease", ScriptedLease)
    monkeypatch.setattr(job, "make_target", lambda *_arguments, **_options: Shape("narrow", "", 1))
    monkeypatch.setattr(job, "is_compacted", lambda _migration: False)
    monkeypatch.setattr(job, "prepare_target", lambda _migration: made.append("prepare"))
    monkeypatch.setattr(job, "finish_target", lambda _migration: made.append("finish"))
    return made


def run(**options: Any) -> MigrationRun:
    return MigrationRun(None, PLANNED, **options)  # type: ignore[arg-type] - nothing uses Spark here


def test_a_copy_ends_with_the_offsets_of_the_groups(calls: list[Any], admin: Any) -> None:
    assert run().copy() == Migrated(records=5, groups={"g": Carried({0: 4}, 1)})
    assert calls == ["begin", "prepare", (5, {"g": {0: 4}}), "verify", "finish"]
    assert admin.commits["g"][TARGET_0].offset == 4


def test_groups_with_members_are_refused_before_the_target_is_made(calls: list[Any], admin: Any) -> None:
    admin.states = {"g": "Stable"}
    with pytest.raises(
        MigrationError, match=r"group g has members \(it is Stable\), which go on with wide: stop them first, or copy while"
    ):
        run().copy()
    assert calls == []


class Events:
    """What happens in the pauses of a run, one after the other; then time goes on alone."""

    def __init__(self, *events: Any) -> None:
        self.events = list(events)
        self.now_s = 0.0
        self.reports: list[Progress] = []

    def report(self, progress: Progress) -> None:
        """Without what is planned or verified."""
        if not progress.doing:
            self.reports.append(progress)

    def pause(self, seconds: float) -> None:
        self.now_s += seconds
        if self.events:
            self.events.pop(0)()


def follow(events: Events, idle_s: float) -> Migrated:
    return run(pause=events.pause, clock=lambda: events.now_s, report=events.report).follow(idle_s)


def test_following_ends_when_the_source_stands_still_without_members(calls: list[Any], admin: Any) -> None:
    admin.states = {"g": "Stable"}

    def produce() -> None:
        admin.extents["wide"] = [Extent(0, 9)]

    def delete_old_records() -> None:
        admin.extents["wide"] = [Extent(2, 9)]

    def stop() -> None:
        admin.commits["g"] = {SOURCE_0: CommittedOffset(7)}
        admin.states = {"g": "Empty"}

    events = Events(produce, delete_old_records, lambda: None, stop)
    assert follow(events, 2.0) == Migrated(records=9, groups={"g": Carried({0: 7}, 1)})
    assert calls[:3] == ["begin", "prepare", (5, {"g": {0: 4}})]
    assert [each for each in calls if each != "replay"][-3:] == [(9, {"g": {0: 7}}), "verify", "finish"]
    assert events.now_s == 4 + 2, "two seconds after the last member has stopped"
    waits = [each.waits_for for each in events.reports]
    assert waits[0] == "the members of g to stop"
    assert waits[-1] == "the source to stand still"


def test_following_waits_for_the_members_for_as_long_as_it_takes(calls: list[Any], admin: Any) -> None:
    admin.states = {"g": "Stable"}
    events = Events(*[lambda: None] * 40, admin.states.clear)
    follow(events, 1.0)
    assert events.now_s >= 41


def test_a_source_that_gets_partitions_while_it_is_followed_ends_the_run(calls: list[Any], admin: Any) -> None:
    admin.states = {"g": "Stable"}

    def add_a_partition() -> None:
        admin.extents["wide"] = [Extent(0, 5), Extent(0, 1)]

    with pytest.raises(MigrationError, match="topic wide has 2 partitions now, and had 1 when the run began: run the same command again"):
        follow(Events(add_a_partition), 2.0)
    assert "verify" not in calls


def test_a_topic_that_got_records_while_it_was_copied_is_not_cut_over(calls: list[Any], admin: Any) -> None:
    during_copy.append(lambda: admin.extents.update(wide=[Extent(0, 7)]))
    with pytest.raises(MigrationError, match="wide-0 got records while wide was copied: stop its producers and run the same command again"):
        run().copy()
    assert "verify" not in calls


def test_what_an_open_transaction_hides_is_not_left_behind(calls: list[Any], admin: Any, log: Any) -> None:
    log.extents = admin.extents | {"wide": [Extent(0, 6)]}
    with pytest.raises(MigrationError, match="wide-0 has an open transaction, and what is behind its start was not copied: wait until"):
        run().copy()
    assert "verify" not in calls
    events = Events(*[lambda: None] * 20, lambda: log.extents.update(wide=[Extent(0, 5)]))
    follow(events, 1.0)
    assert events.now_s >= 21
    assert events.reports[0].waits_for == "the open transaction in wide-0 to end"
    assert calls[-2:] == ["verify", "finish"]


def test_members_that_come_while_it_is_copied_are_refused_before_offsets_are_committed(calls: list[Any], admin: Any) -> None:
    during_copy.append(lambda: admin.states.update(g="Stable"))
    with pytest.raises(MigrationError, match=r"group g has members \(it is Stable\), which go on with wide"):
        run().copy()
    assert TARGET_0 not in admin.commits["g"]


def test_what_groups_read_again_is_known_before_offsets_are_committed(calls: list[Any], admin: Any) -> None:
    admin.states = {"g": "Stable"}

    def read(offset: int) -> Any:
        return lambda: admin.commits.update(g={SOURCE_0: CommittedOffset(offset)})

    def stop() -> None:
        read(5)()
        admin.states.clear()

    events = Events(read(1), read(2), read(3), stop)
    follow(events, 0.0)
    # At once, then no more often than every minute while the group reads, and again when it has stopped.
    assert [each for each in calls if each == "replay"] == ["replay"] * 2
    assert [each.replay for each in events.reports][:1] == [{"g": 1}]
    assert [each.replay for each in events.reports][-1:] == [{"g": 0}]
    events = Events(*[read(each) for each in range(4) for _ in range(20)])
    admin.states = {"g": "Stable"}
    events.events.append(admin.states.clear)
    calls.clear()
    follow(events, 1.0)
    assert calls.count("replay") == 3


def test_no_offsets_are_committed_without_the_lease(calls: list[Any], admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedLease, "is_lost", True)
    with pytest.raises(MigrationError, match="another one"):
        run().copy()
    assert TARGET_0 not in admin.commits["g"]


def test_a_copy_ends_when_another_run_has_the_lease(calls: list[Any], admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(filling: ScriptedFilling, ends: Any, positions: Any) -> None:
        filling.report(Progress(0, 5))
        calls.append("another batch")

    monkeypatch.setattr(ScriptedFilling, "copy_up_to", copy)
    monkeypatch.setattr(ScriptedLease, "is_lost", True)
    with pytest.raises(MigrationError, match="another one"):
        run().copy()
    assert "another batch" not in calls
