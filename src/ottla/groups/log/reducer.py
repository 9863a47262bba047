"""The reducer of a coordinator's log: replays all records in bulk, of each key only the last one, to the state of `ReplayedState.apply`.

A log is reduced piece by piece. Two backends implement the protocol with equal results: the reference one here and the compiled one in
`compiled_loading`. The caller decides which batches count (of transactions, only committed ones).
"""

from ottla.coordinator.loading import Loaded, RecordReducer
from ottla.groups.log.records import OffsetRecord, decode, decode_offset_value
from ottla.groups.log.replayed_state import ReplayedState
from ottla.protocol.coordinator_records import OffsetValue

LoadedGroups = Loaded[ReplayedState]
"""The groups of one log."""


class ReferenceReducer(RecordReducer[ReplayedState]):
    """The reference backend, which needs no compiler."""

    def __init__(self) -> None:
        super().__init__()
        self._replayed = ReplayedState()
        self._latest: dict[tuple[str, str, int], OffsetValue] = {}
        self._targets: dict[bytes, tuple[str, str, int]] = {}

    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        # Most keys occur again: their bytes are decoded once, and then only values are.
        target = self._targets.get(key) if key is not None else None
        if target is None:
            target = self._target(key, value)
        if target is not None:
            if value is None:
                self._latest.pop(target, None)
            else:
                self._latest[target] = decode_offset_value(value)

    def _target(self, key: bytes | None, value: bytes | None) -> tuple[str, str, int] | None:
        """Group, topic and partition of an offset's key; None for other records, which are applied at once."""
        found = decode(key, None)
        if isinstance(found, OffsetRecord):
            assert key is not None
            target = self._targets[key] = (found.group_id, found.topic, found.partition)
            return target
        if found is None:
            self.unknown += 1
        else:
            record = decode(key, value)
            assert record is not None
            self._replayed.apply(record)
        return None

    def finish(self) -> LoadedGroups:
        offsets = self._replayed.offsets
        for (group_id, topic, partition), value in self._latest.items():
            offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = value
        return LoadedGroups(self._replayed, self.unknown, tuple(self.problems))
