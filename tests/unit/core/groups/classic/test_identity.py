"""Identity: members, and the holder of an instance id."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode

E = ErrorCode


@pytest.fixture
def with_statics(driver: Any) -> Any:
    return driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1", "join g - new=m9")


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ("s1 gen=1 instance=i1", E.NONE),
        ("s1 gen=1", E.NONE),
        ("s1 gen=1 instance=i9", E.UNKNOWN_MEMBER_ID),
        ("s0 gen=1 instance=i1", E.FENCED_INSTANCE_ID),
        ("s0 gen=1", E.UNKNOWN_MEMBER_ID),
        ("m9 gen=1", E.UNKNOWN_MEMBER_ID),
        ("s0 gen=9 instance=i1", E.FENCED_INSTANCE_ID),
        ("s1 gen=0", E.ILLEGAL_GENERATION),
    ],
)
def test_who_may_send_heartbeats(with_statics: Any, who: str, error: ErrorCode) -> None:
    assert with_statics.error(f"heartbeat g {who}") is error


def test_each_fenced_process_is_reported_once(with_statics: Any) -> None:
    kinds = []
    for member_id in ("a", "a", "b", "b"):
        kinds += [event.kind for event in with_statics.do(f"heartbeat g {member_id} gen=1 instance=i1").events]
    assert kinds == ["static_fenced", "static_fenced"]
