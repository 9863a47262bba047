"""One setting: which values it takes, and with which sentence it refuses others."""

from ottla.core.config import TOPIC_SETTINGS


def test_a_list_takes_several_choices_and_refuses_others() -> None:
    policy = TOPIC_SETTINGS["cleanup.policy"]
    assert policy.problem("compact,delete") is None
    assert policy.problem("compact,shred") is not None
    assert policy.problem(None) is not None
