"""Record batches to Arrow by Numba: the compiled backend for Spark, and for reading logs and topics by the million.

It needs the extra `arrow`, and loads none of it by itself: NumPy, Numba and Arrow come with the first use of a name below.
"""

import importlib
from typing import Any

from ottla.core.extras import require

require("arrow")

_HOMES = {
    "COLUMNS": "decoding.record_batch_decoder",
    "COLUMN_TYPES": "decoding.record_batch_decoder",
    "RecordBatchDecoder": "decoding.record_batch_decoder",
    "GROUP_RECORD_TYPES": "group_records.decoder",
    "GroupRecordDecoder": "group_records.decoder",
    "Batches": "decoding.batches",
    "scan": "decoding.batches",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
