"""One kind of coordinator as a broker runs it: what all its partitions have in common, and the answers where no coordinator runs."""

from abc import ABC, abstractmethod
from typing import Any, Generic

from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.coordinator.loading import Reducer
from ottla.coordinator.loop import CoordinatorT
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.compression import Codec


class CoordinatorService(ABC, Generic[CoordinatorT]):
    """The groups, or the transactions, of one broker (Kafka: `GroupCoordinatorService`)."""

    coordinator_type: type[CoordinatorT]
    codec: Codec
    """Of the batches that coordinators write."""

    @abstractmethod
    def create(self, *, partition: int, node_id: int) -> CoordinatorT:
        """A coordinator whose log is not loaded yet."""

    @abstractmethod
    def reducer(self, log_bytes: int) -> Reducer[Any]:
        """The reducer of one log, where `log_bytes` are to be loaded in total. In any thread; may block it."""

    @abstractmethod
    def refusal(self, command: Any, status: CoordinatorStatus) -> Any:
        """The result of a request at a coordinator of this status, which is not ACTIVE."""

    @abstractmethod
    def error_result(self, command: Any, error: ErrorCode) -> Any:
        """The request's result with `error`."""
