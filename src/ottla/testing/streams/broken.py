"""A source that is broken on purpose: it commits where a batch will end before the batch is processed. The oracle must find it.

Nobody but the kill tests uses it.
"""

from typing import TYPE_CHECKING, Any

from ottla.spark.source import OttlaDataSource

if TYPE_CHECKING:
    from ottla.spark.stream_reader import StreamReader


class CommitsAhead(OttlaDataSource):
    """The format "commits-ahead"."""

    @classmethod
    def name(cls) -> str:
        return "commits-ahead"

    def streamReader(self, schema: Any) -> "StreamReader":
        from ottla.spark.options import Query, parse_options

        return ahead_reader(parse_options(self.options, Query.STREAM), schema)


def ahead_reader(*arguments: Any, **settings: Any) -> "StreamReader":
    """A StreamReader that commits the end of what it plans."""
    from ottla.spark.stream_offsets import from_json
    from ottla.spark.stream_reader import StreamReader

    class AheadReader(StreamReader):
        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            end = super().latestOffset(start, limit)
            self._commit(from_json(end))
            return end

    return AheadReader(*arguments, **settings)
