"""Kafka topics in Spark: a source and a sink called "ottla", group offsets, and pipelines.

`ottla.spark.session()` starts a session. It needs the extra `spark`. Importing this package loads nothing; it adapts Spark's own workers.
"""

import sys
from typing import TYPE_CHECKING, Any

from ottla.extras import require

if TYPE_CHECKING:
    from ottla.spark.sessions import session as session

require("spark", "pyspark")

if any(word.startswith("pyspark.") for word in sys.orig_argv[2:3]):
    from ottla.spark.daemon import adapt

    adapt()


def __getattr__(name: str) -> Any:
    if name != "session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.spark.sessions import session

    return session
