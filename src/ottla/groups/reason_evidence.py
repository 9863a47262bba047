"""What a member of `ottla.Consumer` adds to the reason of a JoinGroup or LeaveGroup: a cause and its numbers, in brackets.

The text before the brackets is that of Kafka's Java client (KIP-800), so that tools which know it find it unchanged:
`consumer poll timeout has expired. [slow processing: no poll for 6001 ms, 412 records at 14.6 ms each]`.
"""

import re
from enum import StrEnum
from typing import Final

REASON_LETTERS_MAX: Final = 255
"""Where Kafka's clients cut a reason off (`JoinGroupRequest.MAX_REASON_LENGTH`)."""


class MemberCause(StrEnum):
    """Why a member lost its membership, as measured in its own process."""

    SLOW_PROCESSING = "slow processing"
    BLOCKED = "application blocked"
    GARBAGE_COLLECTION = "garbage collection"
    GIL_HELD = "GIL held"
    STOPPED = "process stopped"
    THREAD_LATE = "consumer thread late"
    LOOP_BLOCKED = "event loop blocked"
    NETWORK = "network"
    UNKNOWN = "not measured"


POLLED_LATE: Final = frozenset({MemberCause.SLOW_PROCESSING, MemberCause.BLOCKED})
"""The application polled too late; otherwise heartbeats were missing."""
HEARTBEATS_MISSING: Final = frozenset(MemberCause) - POLLED_LATE - {MemberCause.UNKNOWN}
_EVIDENCE: Final = re.compile(r"\[((" + "|".join(re.escape(cause) for cause in MemberCause) + r"): [^\[\]]*)\]?$")


def with_evidence(reason: str, evidence: str) -> str:
    """A reason with evidence behind it, at most REASON_LETTERS_MAX letters; the evidence is cut off first."""
    text = f"{reason} [{evidence}]" if evidence else reason
    return text[:REASON_LETTERS_MAX]


def evidence_in(reason: str) -> MemberCause | None:
    """The cause that a reason names in brackets; None where it names none."""
    found = _EVIDENCE.search(reason)
    return MemberCause(found[2]) if found else None


def evidence_text(reason: str) -> str:
    """What a reason has in brackets; "" where that is no evidence."""
    found = _EVIDENCE.search(reason)
    return found[1] if found else ""
