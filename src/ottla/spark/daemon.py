"""Spark's Python daemon, which loads the fetch client and the decoder's kernels before it forks workers.

It does not load Arrow: Arrow starts threads, and a process with threads must not fork. Spark starts the daemon, see `sessions`.
"""

import gc

from pyspark import daemon

import ottla.spark.source.task_reading  # noqa: F401 - loaded for the workers that are forked
from ottla.columnar.preloading import load_kernels


def main() -> None:
    """Load the kernels, then run pyspark.daemon."""
    load_kernels()
    # Workers collect garbage after every task. To scan what is loaded here took 80 ms, after 4 ms of work: exempt it.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
