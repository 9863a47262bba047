"""Record batches to Arrow by Numba: the fast lane for Spark, and for reading logs and topics by the million.

Nothing heavy is loaded by importing this package: NumPy, Numba and Arrow (the extra `arrow`) come with the first use of a name below.
"""

import importlib
from typing import Any

_HOMES = {
    "COLUMNS": "decoder",
    "COLUMN_TYPES": "decoder",
    "RecordBatchDecoder": "decoder",
    "GROUP_RECORD_TYPES": "group_records",
    "GroupRecordDecoder": "group_records",
    "Batches": "batches",
    "scan": "batches",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("numpy", "numba", "pyarrow"):
            raise
        raise ModuleNotFoundError(f'{error.name} is not installed: pip install "ottla[arrow]"', name=error.name) from error
    return getattr(module, name)
