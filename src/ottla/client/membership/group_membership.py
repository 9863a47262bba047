"""What a consumer's engine uses of its membership, whatever the group's protocol; and the search for the coordinator, which both share.

`membership` has the classic protocol, `consumer_membership` that of KIP-848.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ottla.client.backoff import backoff_ms
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.values import Assigned, FindCoordinator, GroupRequest, GroupSettings, MemberState
from ottla.client.reactions import FIND_COORDINATOR, Reaction
from ottla.groups.assignors import NO_RACKS, Racks
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.consumer_protocol import NO_GENERATION, Partitions


class GroupMembership(ABC):
    """One member. `generation`: of the group, or the member's epoch. `coordinator`: the broker's id, None while it is not known.

    `failure`: an error that the application has to see, and `failure_text` what the coordinator says of it. `assigned`: partitions that the
    application has to take over. `evidence` records what happens to the membership, for the reason of a loss.
    """

    sends_patterns: ClassVar[bool] = False
    """Whether the coordinator knows which topics a pattern matches; otherwise the consumer does."""

    def __init__(self, settings: GroupSettings, *, evidence: Evidence, now_ms: float, rng: Callable[[], float]) -> None:
        self.settings = settings
        self.generation = NO_GENERATION
        self.member_id = ""
        self.coordinator: int | None = None
        self.failure: ErrorCode | Exception | None = None
        self.failure_text: str | None = None
        self.has_poll_expired = False
        self.assigned: Assigned | None = None
        self.group_topics: frozenset[str] = frozenset()
        self.unknown_topic_ids: frozenset[str] = frozenset()
        """Topics that were assigned by ids without a known name."""
        self._rng = rng
        self._evidence = evidence
        self._topics: frozenset[str] | None = None
        self._find_at_ms = now_ms
        self._find_failures = 0
        self._finding: FindCoordinator | None = None
        self._wants_coordinator = False

    # What the application does.

    @property
    @abstractmethod
    def state(self) -> MemberState:
        """What the member does."""

    @property
    @abstractmethod
    def is_cooperative(self) -> bool:
        """Whether it keeps the partitions that stay its own in a rebalance."""

    @property
    def is_subscribed(self) -> bool:
        """Whether there is a subscription, so that the member belongs into the group."""
        return self._topics is not None

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the failure stays: each call raises it."""

    @property
    @abstractmethod
    def must_prepare(self) -> bool:
        """Whether the application has to give up partitions before it can join."""

    @property
    @abstractmethod
    def has_lost_partitions(self) -> bool:
        """Whether the partitions that it gives up may belong to other members already."""

    @property
    def identity(self) -> tuple[int, str]:
        """As whom it commits: generation and member id."""
        return self.generation, self.member_id

    @property
    @abstractmethod
    def claim(self) -> int:
        """Changes when other members may own what was this member's: an offset of before is not committed any more."""

    @property
    @abstractmethod
    def poll_due_ms(self) -> float:
        """When the member leaves, unless the application polls before."""

    @property
    @abstractmethod
    def is_leaving(self) -> bool:
        """Whether the request that leaves the group is to be sent."""

    @abstractmethod
    def subscribe(self, topics: frozenset[str], regex: str = "") -> None:
        """The topics to join with, and a pattern if the coordinator knows what it matches."""

    @abstractmethod
    def poll(self, now_ms: float) -> None:
        """The application has called poll."""

    @abstractmethod
    def prepared(self, owned: Partitions) -> None:
        """The application has given up what it had to; `owned` is what it keeps."""

    @abstractmethod
    def leave(self, reason: str) -> None:
        """Leave the group and forget the subscription."""

    def find_coordinator(self) -> None:
        """A request needs the coordinator, although there is no subscription."""
        self._wants_coordinator = True

    def take_failure(self) -> ErrorCode | Exception | None:
        """The error to raise now. A fenced member fails again in each call; after other errors it tries to join again."""
        failure = self.failure
        if not self.is_over:
            self.failure = None
        return failure

    # Metadata and the coordinator.

    @abstractmethod
    def on_metadata(self, partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> None:
        """The number of partitions of each topic in which the group is interested, and the racks of their replicas."""

    @abstractmethod
    def on_topic_ids(self, names: Mapping[str, str]) -> None:
        """The names of topics by their ids."""

    def on_coordinator(self, broker_id: int, now_ms: float) -> None:
        """FindCoordinator was answered."""
        self._finding, self._find_failures = None, 0
        self._wants_coordinator = False
        self.coordinator = broker_id

    def on_no_coordinator(self, error: ErrorCode | None, now_ms: float) -> None:
        """FindCoordinator failed: with an error code, or without a response (None)."""
        self._finding = None
        if error is not None and FIND_COORDINATOR.of(error) is Reaction.TELL:
            self.failure = error
        self._find_failures += 1
        self._find_at_ms = now_ms + self._backoff_ms(self._find_failures)

    def coordinator_lost(self, now_ms: float) -> None:
        """The coordinator moved, or its connection broke: find it again. It answers no request that is on its way."""
        if self.coordinator is not None:
            self.coordinator = None
            self._find_at_ms = now_ms
            self._on_coordinator_lost(now_ms)

    @abstractmethod
    def _on_coordinator_lost(self, now_ms: float) -> None:
        """What becomes of the requests that were on their way to it."""

    # Requests and their outcomes.

    @abstractmethod
    def next_requests(self, now_ms: float) -> list[GroupRequest]:
        """What to send now; each request once."""

    @abstractmethod
    def next_ms(self) -> float | None:
        """When `next_requests` may have something without any report; None when it waits for reports alone."""

    @abstractmethod
    def on_response(self, request: Any, response: Any, now_ms: float) -> None:
        """The response to a request other than FindCoordinator, of the type that belongs to it."""

    @abstractmethod
    def on_no_response(self, request: GroupRequest, now_ms: float) -> None:
        """A request was lost with its connection, or not answered in time."""

    @abstractmethod
    def commit_refused(self, error: ErrorCode, generation: int, member_id: str, now_ms: float) -> bool:
        """A commit of this generation and member was refused: whether a rebalance is the reason, so that it may succeed afterwards."""

    def _next_search(self, now_ms: float) -> list[FindCoordinator]:
        """The search for the coordinator, if one is to be begun."""
        search_ms = self._search_ms()
        if search_ms is None or now_ms < search_ms:
            return []
        self._finding = FindCoordinator(self.settings.group_id)
        return [self._finding]

    def _search_ms(self) -> float | None:
        """When to look for the coordinator."""
        is_needed = self.is_subscribed or self._wants_coordinator
        return self._find_at_ms if self.coordinator is None and is_needed and self._finding is None else None

    def _backoff_ms(self, failures: int) -> float:
        return backoff_ms(failures, *self.settings.retry_backoff_ms, self._rng())
