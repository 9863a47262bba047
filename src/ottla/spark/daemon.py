"""Spark's Python daemon with the decoder's kernels loaded before it forks, so that every worker has them from its first batch on.

Only NumPy and Numba are loaded here: Arrow starts threads, and a process with threads must not fork. Started by Spark, see `session`.
"""

from pyspark import daemon

from ottla.columnar.warm import warm_up


def main() -> None:
    """Load the kernels, then do what pyspark.daemon does."""
    warm_up()
    daemon.manager()


if __name__ == "__main__":
    main()
