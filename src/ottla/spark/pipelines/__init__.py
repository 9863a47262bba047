"""Pipelines: each file here holds PIPELINE, pure steps from DataFrame to DataFrame.

`ottla.spark.runner` reads the inputs and stores the outputs.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ottla.discovery import drop_ins

if TYPE_CHECKING:
    from pyarrow import RecordBatch


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One function from the tables named `inputs`, in this order, to the table `output`."""

    function: Callable[..., DataFrame]
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Steps in their order. `inputs` and `outputs` name tables and their schemas; `overview` makes a few text columns of the first output,
    for people. `time` is that output's column that says when a row was, if it has one; `shows_latest`: the overview has a row for each of
    the output's, in the order of time, so that of many the latest are shown.

    `appended` are the tables that can be computed from each part of the input separately, so that a stream only appends to them; every
    other output is derived from all their rows. `reused` are inputs and tables of steps of which much is made, or which cost much: a run
    computes them once. `configure` makes the pipeline with other settings, by their names; it raises ValueError
    with a sentence. `in_arrow` does the work of all steps on the batches of a task, and yields rows with the name of their table: the
    workers that read may then write the tables themselves. Only for pipelines whose tables are all appended, without rows of other tasks.
    """

    inputs: Mapping[str, StructType]
    outputs: Mapping[str, StructType]
    appended: Mapping[str, StructType]
    steps: tuple[PipelineStep, ...]
    overview: Callable[[DataFrame], DataFrame]
    reused: tuple[str, ...] = ()
    time: str | None = None
    shows_latest: bool = False
    in_arrow: "Callable[[Iterable[RecordBatch]], Iterator[tuple[str, RecordBatch]]] | None" = None
    configure: Callable[[Mapping[str, str]], "Pipeline"] | None = None


@cache
def pipelines() -> Mapping[str, Pipeline]:
    """Every pipeline by the name of its file."""
    return drop_ins(sys.modules[__name__], "PIPELINE", Pipeline)
