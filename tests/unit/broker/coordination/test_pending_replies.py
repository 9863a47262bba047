"""Pending replies: each is delivered once, and a failure of one does not prevent the others."""

from typing import Any

import pytest

from ottla.broker.coordination.pending_replies import PendingReplies
from ottla.core.errors import ErrorCode
from ottla.core.groups.effects import DeleteResult, Reply

RESULT = DeleteResult(error=ErrorCode.NONE)


class Request:
    """A request that notes the errors with which it failed."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def fail(self, error: Exception) -> None:
        self.failures.append(error)


def divide_by_zero(_result: Any) -> None:
    raise ZeroDivisionError


def test_a_reply_goes_to_its_request_and_only_once() -> None:
    replies, answers = PendingReplies(), []
    first, second = (replies.expect(lambda result, name=name: answers.append((name, result))) for name in ("first", "second"))
    replies.deliver(Reply(to=second, result=RESULT))
    assert answers == [("second", RESULT)]
    with pytest.raises(KeyError):
        replies.deliver(Reply(to=second, result=RESULT))
    replies.deliver(Reply(to=first, result=RESULT))
    assert len(replies) == 0


def test_a_response_that_cannot_be_sent_fails_its_request_only() -> None:
    replies, request = PendingReplies(), Request()
    reply_to = replies.expect(divide_by_zero, request)  # type: ignore[arg-type]
    replies.deliver(Reply(to=reply_to, result=RESULT))
    assert [type(error) for error in request.failures] == [ZeroDivisionError]
    assert len(replies) == 0


def test_without_a_request_the_failure_is_the_callers() -> None:
    replies = PendingReplies()
    with pytest.raises(ZeroDivisionError):
        replies.deliver(Reply(to=replies.expect(divide_by_zero), result=RESULT))


def test_a_request_without_a_reply_fails_and_others_wait_on() -> None:
    replies, request = PendingReplies(), Request()
    reply_to = replies.expect(divide_by_zero, request)  # type: ignore[arg-type]
    replies.expect(divide_by_zero)
    replies.fail(reply_to, OSError())
    replies.fail(reply_to, OSError())
    assert [type(error) for error in request.failures] == [OSError]
    assert len(replies) == 1


def test_a_cancelled_reply_is_forgotten() -> None:
    replies = PendingReplies()
    replies.cancel(replies.expect(divide_by_zero))
    replies.cancel(0)
    assert len(replies) == 0
