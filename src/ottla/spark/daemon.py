"""Spark's Python daemon, which loads what its workers need before it forks them: for tasks, the fetch client and the decoder's kernels.

It does not load Arrow: Arrow starts threads, and a process with threads must not fork. Spark starts the daemon, see `sessions`.
"""

import gc
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

TASKS: Final = "pyspark.worker"
"""The workers that run tasks. Spark starts a daemon for each kind of worker; the others plan queries, and decode nothing."""


def main() -> None:
    """Load what this daemon's workers need, then run pyspark.daemon. The first argument is the module of the workers."""
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon

    load(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    # Workers collect garbage after every task. To scan what is loaded here took 80 ms, after 4 ms of work: exempt it.
    gc.freeze()
    daemon.manager()


def without_archives(path: Sequence[str]) -> list[str]:
    """`path` without the zip archives of the PySpark that is installed itself in another entry.

    Spark puts its archives first in the path of its Python processes. They hold source alone, so each daemon compiled all that it needed of
    them, 0.7 s of CPU before the first read; the installed files are the same ones, and compiled.
    """
    archives = [entry for entry in path if entry.endswith(".zip")]
    installed = [entry for entry in path if entry not in archives]
    found = [PathFinder.find_spec(name, installed) for name in ("pyspark", "py4j")]
    homes = [Path(spec.origin).parent for spec in found if spec is not None and spec.origin is not None]
    if len(homes) < len(found):
        return list(path)
    return [entry for entry in path if entry not in archives or Path(entry).parent != homes[0] / "python" / "lib"]


def load(workers: str) -> None:
    """Load the modules that such workers need."""
    if workers == TASKS:
        import ottla.spark.source.task_reading
        from ottla.columnar.preloading import load_kernels

        load_kernels()
    elif workers.endswith(("plan_data_source_read", "data_source_pushdown_filters")):
        import ottla.spark.source.batch_reader
    elif workers.endswith("write_into_data_source"):
        import ottla.spark.sink.writers  # noqa: F401


if __name__ == "__main__":
    main()
