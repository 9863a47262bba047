"""Topics that were deleted while an offsets partition had no coordinator: the next one deletes their offsets."""


class UnservedDeletions:
    """Names of deleted topics, by number of the offsets partition. One for all brokers of a process."""

    def __init__(self) -> None:
        self._names: dict[int, set[str]] = {}

    def __len__(self) -> int:
        """The number of partitions that have names."""
        return len(self._names)

    def add(self, number: int, name: str) -> None:
        """Add a topic that was deleted while the partition had no coordinator."""
        self._names.setdefault(number, set()).add(name)

    def take(self, number: int) -> tuple[str, ...]:
        """Return the names of a partition and forget them: its coordinator deletes their offsets."""
        return tuple(self._names.pop(number, ()))

    def clear(self) -> None:
        """Forget all names: the offsets topic itself was deleted."""
        self._names.clear()
