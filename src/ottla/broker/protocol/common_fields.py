"""Values of fields that the responses of several APIs share."""

import datetime
from typing import Final

NO_THROTTLE_MS: Final = 0
OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
"""The authorized operations of a response to a client that did not ask for them."""
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
"""What may be done with a topic: bit n is set for ACL operation n. There are no ACLs."""


def milliseconds(duration: datetime.timedelta) -> int:
    """A duration of kio's as a whole number of milliseconds."""
    return duration // datetime.timedelta(milliseconds=1)
