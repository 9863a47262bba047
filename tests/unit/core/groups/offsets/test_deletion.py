"""Deletion of offsets: on request, and with their topics."""

from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import ForgetTopics

E = ErrorCode


def test_offsets_of_topics_in_use_are_not_deleted(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=1 weather/0=1")
    effects = driver.do("delete-offsets g flights/0 weather/0 weather/0 weather/5")
    subscribed = E.GROUP_SUBSCRIBED_TO_TOPIC
    assert effects.replies[0].result.errors == (subscribed, E.NONE, E.NONE, E.NONE)
    assert [(record.topic, record.partition, record.value) for record in effects.records] == [("weather", 0, None)]


def test_offsets_of_an_unknown_group_are_not_deleted(driver: Any) -> None:
    assert driver.error("delete-offsets g flights/0") is E.GROUP_ID_NOT_FOUND


def test_a_deleted_topics_offsets_are_deleted_in_all_groups(driver: Any) -> None:
    driver.given("commit a flights/0=1 weather/0=1", "commit b flights/0=1")
    effects = driver.run(ForgetTopics(topics=("flights", "trains")))
    assert [(record.group_id, record.topic) for record in effects.records] == [("a", "flights"), ("b", "flights")]
    assert effects.replies == ()


def test_a_failed_deletion_changes_nothing(driver: Any) -> None:
    driver.given("commit a flights/0=1")
    driver.shell.fail_next_append = E.KAFKA_STORAGE_ERROR
    assert driver.run(ForgetTopics(topics=("flights",))).replies == ()
    assert driver.answer("fetch a").topics[0][1][0].offset == 1
