"""Python workers of Spark import the installed PySpark, which is compiled, and not the same files from Spark's zip archives.

Spark puts these first in the path of each worker. They hold source alone: every new process compiled all that it needed of them, half a
second of CPU. Python imports this module at its start, where the folder is in PYTHONPATH.
"""

import sys

for archive in [path for path in sys.path if path.endswith(".zip") and "/pyspark/python/lib/" in path]:
    sys.path.remove(archive)
    sys.path_importer_cache.pop(archive, None)
