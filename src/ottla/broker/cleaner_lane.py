"""Which lane a cleaning takes: the columnar one where the extra `arrow` is installed and the log is large, else the plain one.

Both give the same bytes. Called in the cleaner's thread, and only there does it load anything heavy.
"""

from importlib.util import find_spec
from typing import Final

from ottla.core.cleaning.lane import Lane
from ottla.core.cleaning.plain import PlainLane

COLUMNAR_BYTES_MIN: Final = 4 << 20
"""Loading the compiled code takes about as long as the plain lane takes for so much."""


def choose_lane(log_bytes: int) -> Lane:
    """A lane for one thread and one log of so many bytes."""
    if log_bytes < COLUMNAR_BYTES_MIN or find_spec("numba") is None or find_spec("pyarrow") is None:
        return PlainLane()
    from ottla.columnar.cleaning import ColumnarLane

    return ColumnarLane()
