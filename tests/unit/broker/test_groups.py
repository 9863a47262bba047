"""The way from a group's name to its coordinator."""

from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS, NewTopic


def test_s0_4_each_partition_of_the_offsets_topic_has_a_coordinator_of_its_own(api) -> None:
    groups = api.cluster.groups
    assert groups.partition_of("test-group") == 12
    assert groups.loop(12) is groups.loop(12)
    assert groups.loop(12).partition.name == (CONSUMER_OFFSETS, 12)
    assert groups.loop(12).coordinator is not groups.loop(13).coordinator


def test_every_coordinator_is_loaded_at_start(make_api) -> None:
    first = make_api()
    first.cluster.topics.create(NewTopic(name=CONSUMER_OFFSETS, partitions=5))
    assert len(make_api(files=first.files).cluster.groups.loops()) == 5


def test_without_an_offsets_topic_there_is_no_coordinator(api) -> None:
    assert api.cluster.groups.loops() == []


def test_when_the_offsets_topic_is_deleted_the_coordinators_go(api) -> None:
    api.cluster.groups.loop(api.cluster.groups.partition_of("g"))
    api.ask(20, 5, timeout=1000, topic_names=[CONSUMER_OFFSETS])
    assert api.cluster.groups.loops() == []


def test_answers_find_the_one_who_waits_and_only_once(api) -> None:
    told: list[object] = []
    first, second = api.cluster.groups.wait_for(told.append), api.cluster.groups.wait_for(told.append)
    assert first != second
