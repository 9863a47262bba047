"""Sequences whose items are made when somebody looks at them: what the hot path hands on and mostly nobody reads.

It decides nothing. To whoever looks, such a sequence is a tuple: the same items, in the same order, equal to it.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class OnDemand(Sequence[T_co], Generic[T_co]):
    """A tuple of `_make`'s; that is called anew for every look, so a look must be cheap to miss, not cheap to have."""

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
        if isinstance(other, OnDemand):
            return self._make() == other._make()
        return isinstance(other, tuple) and self._make() == other

    def __hash__(self) -> int:
        return hash(self._make())

    def __repr__(self) -> str:
        return repr(self._make())
