"""Looking up and making the topics of a migration on scripted clusters."""

from typing import Any

import pytest

from ottla.client.settings import ClientSettings
from ottla.spark.migration import topics
from ottla.spark.migration.shape import Shape
from ottla.spark.migration.topics import Admins, check_source, find_source, find_target, finish_target, make_target, prepare_target
from ottla.spark.migration.values import Cluster, Extent, Migration, MigrationError
from ottla.spark.sink.producer_settings import parse_producer_settings

HERE = Cluster(client=ClientSettings(bootstrap_servers="h:1"), producer=parse_producer_settings({"bootstrap.servers": "h:1"}))
ONE = [Extent(0, 0)]


def migration(**changes: Any) -> Migration:
    return Migration(**{"source_cluster": HERE, "target_cluster": HERE, "source": "wide", "target": "narrow", "partitions": 2} | changes)


class Settings:
    """What TopicSettings would have done."""

    done: list[tuple[Any, ...]] = []

    def __init__(self, _client: ClientSettings) -> None:
        pass

    def read(self, topic: str) -> dict[str, str]:
        return {"settings": f"of {topic}"}

    def create(self, *arguments: Any) -> None:
        self.done.append(("create", *arguments))

    def prepare(self, topic: str) -> None:
        self.done.append(("prepare", topic))

    def finish(self, *arguments: Any) -> None:
        self.done.append(("finish", *arguments))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setattr(topics, "TopicSettings", Settings)
    monkeypatch.setattr(Settings, "done", [])
    return Settings.done


def test_the_source_must_exist_and_be_another_topic(admin: Any) -> None:
    admins = Admins(source=admin, source_log=admin, target=admin)
    with pytest.raises(MigrationError, match="topic wide does not exist"):
        find_source(migration(), admins)
    admin.extents["wide"] = ONE
    assert find_source(migration(), admins) == Shape("wide", "id of wide", 1)
    with pytest.raises(MigrationError, match="wide cannot be migrated into itself"):
        find_source(migration(target="wide"), admins)


def test_a_source_that_becomes_another_topic(admin: Any) -> None:
    admins, before = Admins(source=admin, source_log=admin, target=admin), Shape("wide", "id of wide", 1)
    with pytest.raises(MigrationError, match="topic wide was deleted while it was copied"):
        check_source(before, admins)
    admin.extents["wide"] = ONE
    check_source(before, admins)
    with pytest.raises(MigrationError, match="topic wide was deleted and made again while it was copied: name another"):
        check_source(before._replace(topic_id="other"), admins)
    admin.extents["wide"] = ONE * 2
    with pytest.raises(MigrationError, match="topic wide has 2 partitions now, and had 1 when the run began: run the same command again"):
        check_source(before, admins)


def test_the_target_exists_with_as_many_partitions_or_its_number_is_given(admin: Any) -> None:
    admins = Admins(source=admin, source_log=admin, target=admin)
    assert find_target(migration(), admins) is None
    with pytest.raises(MigrationError, match="narrow does not exist: say with --partitions"):
        find_target(migration(partitions=None), admins)
    admin.extents["narrow"] = ONE
    assert find_target(migration(partitions=None), admins) == Shape("narrow", "id of narrow", 1)
    with pytest.raises(MigrationError, match="topic narrow exists and has 1 partitions, not 2"):
        find_target(migration(), admins)


def test_a_target_that_exists_stays_as_it_is(admin: Any, done: list[Any]) -> None:
    admin.extents["narrow"] = ONE * 2
    made = make_target(migration(), Shape("wide", "", 1), Admins(source=admin, source_log=admin, target=admin), pause=pytest.fail)
    assert (made.partitions, done) == (2, [])


def test_a_new_target_has_the_sources_settings_and_is_waited_for(admin: Any, done: list[Any]) -> None:
    def appear(_seconds: float) -> None:
        admin.extents["narrow"] = ONE * 2

    made = make_target(migration(), Shape("wide", "", 1), Admins(source=admin, source_log=admin, target=admin), pause=appear)
    assert made == Shape("narrow", "id of narrow", 2)
    # Three replicas in the source, two brokers.
    assert done == [("create", "narrow", 2, 2, {"settings": "of wide"})]


def test_a_new_target_that_gets_no_leaders(admin: Any, done: list[Any]) -> None:
    times = iter([0.0, 10.0, 40.0])
    with pytest.raises(MigrationError, match="narrow was created, but has no leaders: run the same command again"):
        make_target(
            migration(),
            Shape("wide", "", 1),
            Admins(source=admin, source_log=admin, target=admin),
            pause=lambda _s: None,
            clock=lambda: next(times),
        )


def test_the_target_is_prepared_and_in_the_end_set_like_the_source(done: list[Any]) -> None:
    prepare_target(migration())
    finish_target(migration())
    assert done == [("prepare", "narrow"), ("finish", "narrow", {"settings": "of wide"})]


def test_each_cluster_has_its_client_and_the_source_is_read_committed() -> None:
    with topics.connect(migration()) as admins:
        assert admins.source._brokers.settings.is_read_committed
        assert not admins.source_log._brokers.settings.is_read_committed
        assert not admins.target._brokers.settings.is_read_committed
