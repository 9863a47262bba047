"""Spark's Python daemon, which loads what its workers need before it forks them: for tasks, the fetch client and the decoder's kernels.

It does not load Arrow: Arrow starts threads, and a process with threads must not fork. Spark starts the daemon, see `sessions`.
"""

import gc
import sys
from typing import Final

from pyspark import daemon

TASKS: Final = "pyspark.worker"
"""The workers that run tasks. Spark starts a daemon for each kind of worker; the others plan queries, and decode nothing."""


def main() -> None:
    """Load what this daemon's workers need, then run pyspark.daemon. The first argument is the module of the workers."""
    load(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    # Workers collect garbage after every task. To scan what is loaded here took 80 ms, after 4 ms of work: exempt it.
    gc.freeze()
    daemon.manager()


def load(workers: str) -> None:
    """Load the modules that such workers need."""
    if workers == TASKS:
        import ottla.spark.source.task_reading
        from ottla.columnar.preloading import load_kernels

        load_kernels()
    elif workers.endswith(("plan_data_source_read", "data_source_pushdown_filters")):
        import ottla.spark.source.filtered_reader
    elif workers.endswith("write_into_data_source"):
        import ottla.spark.sink.first_contact  # noqa: F401


if __name__ == "__main__":
    main()
