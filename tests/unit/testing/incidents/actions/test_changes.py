"""Topics and subscriptions change while the members stay."""

from collections.abc import Callable

from ottla.testing.incidents.actions.changes import add_partitions, create_matching_topic, delete_topic
from ottla.testing.incidents.group_run import GroupRun, Plan


def test_partitions_are_added(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("add_partitions"))
    before = dict(run.topics)
    add_partitions(run)
    assert all(run.topics[name] > count for name, count in before.items())
    assert run.world.topics == run.topics


def test_a_topic_matches_the_pattern_of_all(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("create_matching_topic"))
    create_matching_topic(run)
    settings = run.settings(0)
    assert settings.topics == ()
    assert settings.pattern == f"{run.group}[.].*"
    assert len(run.topics) == 2


def test_nothing_is_committed_where_a_topic_is_deleted(new_plan: Callable[..., Plan], new_run: Callable[[Plan], GroupRun]) -> None:
    run = new_run(new_plan("delete_topic"))
    delete_topic(run)
    assert not run.settings(0).commits
    assert len(run.world.topics) == 1
