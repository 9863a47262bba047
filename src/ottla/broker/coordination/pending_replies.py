"""The replies that requests to coordinators wait for: each command has a number, by which its reply is found."""

from collections.abc import Callable

from ottla.broker.protocol.request import Request
from ottla.core.groups.effects import Reply, Result


class PendingReplies:
    """The pending replies of one broker's requests, by `reply_to`."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[Callable[[Result], None], Request | None]] = {}
        self._last_reply_to = 0

    def __len__(self) -> int:
        return len(self._pending)

    def expect(self, answer: Callable[[Result], None], request: Request | None = None) -> int:
        """Return a `reply_to` whose result goes to `answer`. If a bug of ours prevents the reply, `request` fails."""
        self._last_reply_to += 1
        self._pending[self._last_reply_to] = answer, request
        return self._last_reply_to

    def deliver(self, reply: Reply) -> None:
        """Pass a reply on."""
        answer, request = self._pending.pop(reply.to)
        try:
            answer(reply.result)
        except Exception as error:
            if request is None:
                raise
            request.fail(error)  # one response that cannot be sent must not prevent the others

    def fail(self, reply_to: int, error: Exception) -> None:
        """End the connection of a request that will get no reply."""
        _, request = self._pending.pop(reply_to, (None, None))
        if request is not None:
            request.fail(error)

    def cancel(self, reply_to: int) -> None:
        """Forget a reply: its command was refused with an error that the caller handles."""
        self._pending.pop(reply_to, None)
