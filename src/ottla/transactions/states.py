"""The states of a transactional id, as tables: which state may follow which, and what EndTxn (26) answers in each.

Sources: KIP-98, KIP-890, Kafka's `TransactionState`, `TransactionMetadata` and `TransactionCoordinator.endTransaction`.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

from ottla.protocol.errors import ErrorCode


class State(IntEnum):
    """A state, by the number that it has in records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def shown(self) -> str:
        """Kafka's name, as DescribeTransactions and tools print it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


BY_NAME: Final[Mapping[str, State]] = {state.shown: state for state in State}
ENDED: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""No transaction is open: the id may expire, and its producer may begin one."""
PREPARED: Final = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}
"""The outcome is decided; when all markers are written, the state on the right follows."""

MAY_COME_FROM: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: ENDED,
    State.ONGOING: ENDED | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: ENDED | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
}
"""An abort of what has no open transaction is one of KIP-890's clients, which end whatever they sent."""


class Ending(Enum):
    """What EndTxn does where it answers without an error."""

    END = "ends the open transaction"
    END_EMPTY = "ends a transaction without partitions"
    REPEAT = "answers again as it did"


_ITS: Final = ErrorCode.INVALID_TXN_STATE
_PF: Final = ErrorCode.PRODUCER_FENCED
_END, _EMPTY, _REPEAT = Ending.END, Ending.END_EMPTY, Ending.REPEAT

FIRST_VERSION: Final[Mapping[tuple[State, bool], Ending | ErrorCode]] = {
    (State.ONGOING, True): _END,
    (State.ONGOING, False): _END,
    (State.COMPLETE_COMMIT, True): _REPEAT,
    (State.COMPLETE_COMMIT, False): _ITS,
    (State.COMPLETE_ABORT, True): _ITS,
    (State.COMPLETE_ABORT, False): _REPEAT,
    (State.EMPTY, True): _ITS,
    (State.EMPTY, False): _ITS,
}
"""By state and whether the client commits, for clients whose epoch stays (EndTxn before v5)."""

SECOND_VERSION: Final[Mapping[tuple[State, bool], tuple[Ending | ErrorCode, Ending | ErrorCode]]] = {
    (State.ONGOING, True): (_END, _PF),
    (State.ONGOING, False): (_END, _PF),
    (State.COMPLETE_COMMIT, True): (_ITS, _REPEAT),
    (State.COMPLETE_COMMIT, False): (_EMPTY, _ITS),
    (State.COMPLETE_ABORT, True): (_ITS, _ITS),
    (State.COMPLETE_ABORT, False): (_EMPTY, _REPEAT),
    (State.EMPTY, True): (_ITS, _PF),
    (State.EMPTY, False): (_EMPTY, _PF),
}
"""For clients whose epoch rises with each end (EndTxn from v5 on): at the current epoch, and at the one before, which is a repetition."""
