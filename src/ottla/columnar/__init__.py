"""Record batches to Arrow by Numba: the compiled backend for Spark, and for reading logs and topics by the million.

It needs the extra `arrow`, and loads none of it by itself: NumPy, Numba and Arrow come with the first use of a name below.
"""

import importlib
from typing import Any

from ottla.extras import require

require("arrow")

_HOMES = {
    "COLUMNS": "ottla.protocol.arrow.decoder",
    "COLUMN_TYPES": "ottla.protocol.arrow.decoder",
    "RecordBatchDecoder": "ottla.protocol.arrow.decoder",
    "GROUP_RECORD_TYPES": "ottla.groups.log.arrow.decoder",
    "GroupRecordDecoder": "ottla.groups.log.arrow.decoder",
    "Batches": "ottla.protocol.arrow.batches",
    "scan": "ottla.protocol.arrow.batches",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
