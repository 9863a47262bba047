"""Routes the commands of API handlers to coordinators by their keys, and the replies back: each request has a number, `reply_to`."""

from collections.abc import Callable
from typing import Any, Generic

from ottla.broker.cluster.topics import Topics
from ottla.broker.coordination.coordinators import BrokerCoordinators
from ottla.broker.network.request import Request
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.effects import Reply
from ottla.coordinator.loop import CoordinatorT
from ottla.coordinator.placement import coordinator_partition
from ottla.protocol.errors import ApiError, ErrorCode


class PendingReplies:
    """The pending replies of one broker's requests, by `reply_to`."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[Callable[[Any], None], Request | None]] = {}
        self._last_reply_to = 0

    def __len__(self) -> int:
        return len(self._pending)

    def expect(self, answer: Callable[[Any], None], request: Request | None = None) -> int:
        """Return a `reply_to` whose result goes to `answer`. If a bug of ours prevents the reply, `request` fails."""
        self._last_reply_to += 1
        self._pending[self._last_reply_to] = answer, request
        return self._last_reply_to

    def deliver(self, reply: Reply[Any]) -> None:
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


class CoordinatorRouter(Generic[CoordinatorT]):
    """The coordinators of one kind of one broker, as its API handlers reach them. `expect_reply` gives the `reply_to` of a command."""

    def __init__(self, *, topics: Topics, coordinators: BrokerCoordinators[CoordinatorT], replies: PendingReplies) -> None:
        self.coordinators = coordinators
        self.replies = replies
        self.expect_reply = replies.expect
        self._topics = topics
        self._topic_name = coordinators.service.coordinator_type.topic
        # The mappings themselves, not method calls: every request reads them.
        self._topics_by_name = topics.by_name
        self._by_partition = coordinators.by_partition

    def partition_of(self, key: str) -> int | ApiError:
        """The partition whose leader coordinates the key; the topic is created at its first use."""
        topic = self._topics_by_name.get(self._topic_name) or self._topics.ensure(self._topic_name)
        return topic if isinstance(topic, ApiError) else coordinator_partition(key, len(topic.leaders))

    def run(self, key: str, command: Any) -> None:
        """Pass a command to the key's coordinator; without one here, reply with the error.

        Raises StorageError when the topic cannot be created, and PeerError for a command that no record could hold.
        """
        try:
            number = self.partition_of(key)
            assert isinstance(number, int), "the topic's own settings were refused"
            loop = self._by_partition.get(number) or self.coordinators.get(number)
            if loop is not None:
                loop.run(command)
            else:
                self._refuse(command, number)
        except Exception:
            self.replies.cancel(getattr(command, "reply_to", 0))
            raise

    def _refuse(self, command: Any, number: int) -> None:
        service = self.coordinators.service
        if not self.coordinators.leads(number):
            result = service.refusal(command, CoordinatorStatus.RESIGNED)
        elif self.coordinators.is_loading(number):
            result = service.refusal(command, CoordinatorStatus.LOADING)
        else:
            result = service.error_result(command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert result is not None, "only a coordinator that serves decides"
        self.replies.deliver(Reply(to=command.reply_to, result=result))
