"""A sequence whose items are created when it is read: the hot path passes it on and seldom reads it."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class LazySequence(Sequence[T_co], Generic[T_co]):
    """The tuple that `_make` returns: same items, same order, equal to it. Each access calls `_make`, so pass it on rather than read it."""

    __slots__ = ()

    @abstractmethod
    def _make(self) -> tuple[T_co, ...]:
        """All items."""

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[T_co, ...]: ...

    def __getitem__(self, at: int | slice) -> T_co | tuple[T_co, ...]:
        return self._make()[at]

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._make())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LazySequence):
            return self._make() == other._make()
        return isinstance(other, tuple) and self._make() == other

    def __hash__(self) -> int:
        return hash(self._make())

    def __repr__(self) -> str:
        return repr(self._make())
