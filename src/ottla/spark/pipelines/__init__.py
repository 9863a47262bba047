"""Pipelines: each file here holds PIPELINE, pure steps from DataFrame to DataFrame.

Where tables come from and go to is the runner's business.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ottla.core.discovery import drop_ins


@dataclass(frozen=True, slots=True)
class Step:
    """One function: it takes the tables named `inputs`, in this order, and makes the table `output`."""

    function: Callable[..., DataFrame]
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Steps in their order. `inputs` and `outputs` name tables and their schemas; `overview` makes a few text columns of the first output,
    for people.

    `appended` are the tables that follow from any part of the input alone, so that a stream only adds to them; every other output is
    made anew from all that they hold.
    """

    inputs: Mapping[str, StructType]
    outputs: Mapping[str, StructType]
    appended: Mapping[str, StructType]
    steps: tuple[Step, ...]
    overview: Callable[[DataFrame], DataFrame]


@cache
def pipelines() -> Mapping[str, Pipeline]:
    """Every pipeline by the name of its file."""
    return drop_ins(sys.modules[__name__], "PIPELINE", Pipeline)
