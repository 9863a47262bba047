"""Spark's Python daemon with the fetch client and the decoder's kernels loaded before it forks: workers have them from the first task on.

Arrow is not loaded here: it starts threads, and a process with threads must not fork. Started by Spark, see `sessions`.
"""

import gc

from pyspark import daemon

import ottla.spark.task_reading  # noqa: F401 - loaded for the workers that are forked
from ottla.columnar.warm import warm_up


def main() -> None:
    """Load everything, then do what pyspark.daemon does."""
    warm_up()
    # Workers collect garbage after every task. What is loaded here is none: to look through it took 80 ms, after 4 ms of work.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
