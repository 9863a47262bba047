"""What our own code said in a worker, out of Spark's account of it: Spark wraps an exception in its own, as text.

It judges nothing: where the text has no exception of ours, there is no sentence.
"""

import re
from typing import Final

_OURS: Final = re.compile(r"\bottla\.[\w.]+(?:Error|Exception): ([^\n]+)")


_NO_FORMAT: Final = re.compile(r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: ([^\s.]+)")


def own_sentence(error: Exception) -> str | None:
    """The message of the last exception of ours in Spark's text; the ones before it are its causes. None where there is none.

    Also a sentence for a format of tables that the session does not have.
    """
    missing = _NO_FORMAT.search(str(error))
    if missing:
        return f"Spark has no format {missing[1]} here: add its jars, with spark.jars.packages in spark-defaults.conf"
    found = _OURS.findall(str(error))
    return found[-1].strip() if found else None
