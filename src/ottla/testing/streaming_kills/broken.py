"""Sources that are broken on purpose, each in one way, to check that the oracle of the kill tests finds it."""

from typing import TYPE_CHECKING, Any

from ottla.spark.data_source import OttlaDataSource

if TYPE_CHECKING:
    from ottla.spark.source.stream_reader import StreamReader


class CommitsAhead(OttlaDataSource):
    """Commits where a batch will end before the batch is processed."""

    @classmethod
    def name(cls) -> str:
        return "commits-ahead"

    def streamReader(self, schema: Any) -> "StreamReader":
        from ottla.spark.options.source_options import Query, parse_options

        return ahead_reader(parse_options(self.options, Query.STREAM), schema)


class ReadsTwice(OttlaDataSource):
    """Has everything read by two tasks."""

    @classmethod
    def name(cls) -> str:
        return "reads-twice"

    def streamReader(self, schema: Any) -> "StreamReader":
        from ottla.spark.options.source_options import Query, parse_options

        return twice_reader(parse_options(self.options, Query.STREAM), schema)


def ahead_reader(*arguments: Any, **settings: Any) -> "StreamReader":
    """A StreamReader that commits the end of what it plans."""
    from ottla.spark.source.stream_offsets import from_json
    from ottla.spark.source.stream_reader import StreamReader

    class AheadReader(StreamReader):
        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            end = super().latestOffset(start, limit)
            self._commit(from_json(end))
            return end

    return AheadReader(*arguments, **settings)


def twice_reader(*arguments: Any, **settings: Any) -> "StreamReader":
    """A StreamReader that plans every task twice."""
    from ottla.spark.source.stream_reader import StreamReader

    class TwiceReader(StreamReader):
        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
            return 2 * super().partitions(start, end)

    return TwiceReader(*arguments, **settings)
