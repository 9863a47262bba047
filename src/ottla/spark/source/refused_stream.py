"""The reader of a stream with invalid options: every call raises the error.

Spark 4.2 replaces an error of `streamReader` itself by an UnboundLocalError: its `finally` stops a reader that it does not have.
"""

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises `error` at the first question of Spark's."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raises the error."""
        self._raise()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raises the error."""
        self._raise()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raises the error."""
        self._raise()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raises the error."""
        self._raise()

    def prepareForTriggerAvailableNow(self) -> None:
        """Raises the error."""
        self._raise()

    def read(self, partition: InputPartition) -> Any:
        """Raises the error."""
        self._raise()

    def stop(self) -> None:
        """Nothing: there is no connection."""

    def _raise(self) -> NoReturn:
        raise self._error
