"""Routes the commands of API handlers to the coordinators of their groups, and the replies back."""

from ottla.broker.cluster.topics import Topics
from ottla.broker.coordination.broker_coordinators import BrokerCoordinators
from ottla.broker.coordination.pending_replies import PendingReplies
from ottla.core.errors import ApiError, ErrorCode
from ottla.core.groups.commands import Command
from ottla.core.groups.commands import Request as GroupRequest
from ottla.core.groups.effects import Reply
from ottla.core.groups.placement import coordinator_partition
from ottla.core.groups.request_checks import CoordinatorStatus, error_result, refusal
from ottla.core.groups.settings import GroupSettings
from ottla.core.metadata.topics import CONSUMER_OFFSETS


class GroupRouter:
    """The groups of one broker, as its API handlers reach them. `expect_reply` gives the `reply_to` of a command."""

    def __init__(self, *, topics: Topics, settings: GroupSettings, coordinators: BrokerCoordinators, replies: PendingReplies) -> None:
        self.coordinators = coordinators
        self.replies = replies
        self.expect_reply = replies.expect
        self._topics = topics
        self._settings = settings
        # The mappings themselves, not method calls: every request reads them.
        self._topics_by_name = topics.by_name
        self._by_partition = coordinators.by_partition

    def partition_of(self, group_id: str) -> int | ApiError:
        """The offsets partition whose leader coordinates the group; the topic is created at its first use."""
        topic = self._topics_by_name.get(CONSUMER_OFFSETS) or self._topics.ensure(CONSUMER_OFFSETS)
        return topic if isinstance(topic, ApiError) else coordinator_partition(group_id, len(topic.leaders))

    def fast_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """The result of a Heartbeat, without a command; None where it needs one (`run`)."""
        number = self.partition_of(group_id)
        loop = self._by_partition.get(number) if isinstance(number, int) else None
        return None if loop is None else loop.fast_heartbeat(group_id, generation, member_id, instance_id)

    def run(self, group_id: str, command: Command) -> None:
        """Pass a command to the group's coordinator; without one here, reply with the error.

        Raises StorageError when the offsets topic cannot be created, and PeerError for a command that no record could hold.
        """
        try:
            number = self.partition_of(group_id)
            assert isinstance(number, int), "the offsets topic's own settings were refused"
            loop = self._by_partition.get(number) or self.coordinators.get(number)
            if loop is not None:
                loop.run(command)
            else:
                assert isinstance(command, GroupRequest), "the broker runs its own commands on its own coordinators"
                self._refuse(command, number)
        except Exception:
            self.replies.cancel(getattr(command, "reply_to", 0))
            raise

    def _refuse(self, command: GroupRequest, number: int) -> None:
        if not self.coordinators.leads(number):
            result = refusal(command, CoordinatorStatus.RESIGNED, self._settings)
        elif self.coordinators.is_loading(number):
            result = refusal(command, CoordinatorStatus.LOADING, self._settings)
        else:
            result = error_result(command, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert result is not None, "with neither status a group decides"
        self.replies.deliver(Reply(to=command.reply_to, result=result))
