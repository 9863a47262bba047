"""Refusals of a coordinator, with the settings that do not fit."""

import pytest

from ottla.client.consumer.join_refusals import refusal_of
from ottla.core.client.group.values import GroupSettings
from ottla.core.errors import ErrorCode

SETTINGS = GroupSettings(group_id="pilots", instance_id="gate-1", session_timeout_ms=100)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.INVALID_SESSION_TIMEOUT, ("session.timeout.ms=100", "group.min.session.timeout.ms", "group.max.session.timeout.ms")),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ("partition.assignment.strategy",)),
        (ErrorCode.FENCED_INSTANCE_ID, ("group.instance.id=gate-1",)),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, ("group.max.size",)),
    ],
)
def test_the_group_and_the_settings_are_named(code: ErrorCode, words: tuple[str, ...]) -> None:
    sentence = refusal_of(code, SETTINGS)
    assert sentence is not None
    assert all(word in sentence for word in ("group pilots", *words))


def test_other_errors_have_their_own_texts() -> None:
    assert refusal_of(ErrorCode.GROUP_AUTHORIZATION_FAILED, SETTINGS) is None
