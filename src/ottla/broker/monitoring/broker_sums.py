"""Sums over the groups of each broker, for its row in the snapshot."""

from ottla.broker.monitoring.group_snapshot import BrokerRow
from ottla.coordinator.coordinator import CoordinatorStatus
from ottla.groups.classic.states import GroupState


class BrokerSums:
    """The sums over one broker's coordinators in one sample."""

    def __init__(self) -> None:
        self.offsets = 0
        self.by_state = {state.value: 0 for state in GroupState}
        self.coordinators = {CoordinatorStatus.LOADING.value: 0, CoordinatorStatus.ACTIVE.value: 0}

    def row(self, broker_id: int, offset_commits: int) -> BrokerRow:
        return BrokerRow(
            broker_id=broker_id,
            groups=sum(self.by_state.values()),
            offsets=self.offsets,
            by_state=self.by_state,
            coordinators=self.coordinators,
            offset_commits=offset_commits,
        )


class CommitCounts:
    """Counts the offsets committed on each broker since its start: a coordinator that is loaded again starts at 0, its broker does not."""

    def __init__(self) -> None:
        self._by_broker: dict[int, int] = {}
        self._last: dict[tuple[int, int], int] = {}

    def add(self, broker_id: int, partition: int, count: int) -> None:
        """Add what the coordinator of an offsets partition has counted since the last call; `count` is its own total."""
        last = self._last.get((broker_id, partition), 0)
        self._last[broker_id, partition] = count
        self._by_broker[broker_id] = self._by_broker.get(broker_id, 0) + (count - last if count >= last else count)

    def of(self, broker_id: int) -> int:
        return self._by_broker[broker_id]
