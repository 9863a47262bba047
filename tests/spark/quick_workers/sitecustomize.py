"""Python workers of Spark import the installed PySpark, which is compiled, and not the same files from Spark's zip archives.

Spark puts these first in the path of each worker. They hold source alone: every new process compiled all that it needed of them, half a
second of CPU. Python imports this module at its start, where the folder is in PYTHONPATH.

The daemons that fork the workers for planning load what their workers need, once: Spark takes its own daemon for these, whatever
`spark.python.daemon.module` says, and each of its workers would load everything itself. Not Arrow, which starts threads: see
ottla.spark.daemon.
"""

import sys

for archive in [path for path in sys.path if path.endswith(".zip") and "/pyspark/python/lib/" in path]:
    sys.path.remove(archive)
    sys.path_importer_cache.pop(archive, None)

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"] and sys.orig_argv[3:]:
    from importlib import import_module

    workers = sys.orig_argv[3]
    has_arrow = workers.endswith(("plan_data_source_read", "data_source_pushdown_filters"))
    import_module("pyspark.sql.worker.create_data_source" if has_arrow else workers)
