"""Sources that are broken on purpose, each in one way, to check that the oracle of the kill tests finds it."""

from typing import TYPE_CHECKING, Any

from ottla.spark.data_source import OttlaDataSource

if TYPE_CHECKING:
    from ottla.spark.source.member_reader import MemberStreamReader
    from ottla.spark.source.stream_reader import StreamBase, StreamReader


class CommitsAhead(OttlaDataSource):
    """Commits where a batch will end before the batch is processed, in either mode."""

    @classmethod
    def name(cls) -> str:
        return "commits-ahead"

    def streamReader(self, schema: Any) -> "StreamBase":
        from ottla.spark.options.source_options import Query, parse_options

        options = parse_options(self.options, Query.STREAM)
        return ahead_reader(options, schema) if options.member is None else ahead_member(options, schema)


class ReadsTwice(OttlaDataSource):
    """Has everything read by two tasks."""

    @classmethod
    def name(cls) -> str:
        return "reads-twice"

    def streamReader(self, schema: Any) -> "StreamReader":
        from ottla.spark.options.source_options import Query, parse_options

        return twice_reader(parse_options(self.options, Query.STREAM), schema)


class GivesUpEarly(OttlaDataSource):
    """A member that gives partitions up in the middle of a batch."""

    @classmethod
    def name(cls) -> str:
        return "gives-up-early"

    def streamReader(self, schema: Any) -> "MemberStreamReader":
        from ottla.spark.options.source_options import Query, parse_options

        return early_member(parse_options(self.options, Query.STREAM), schema)


class SkipsBatches(OttlaDataSource):
    """A member that does not read again the batch that was interrupted, and commits it nevertheless."""

    @classmethod
    def name(cls) -> str:
        return "skips-batches"

    def streamReader(self, schema: Any) -> "MemberStreamReader":
        from ottla.spark.options.source_options import Query, parse_options

        return skipping_member(parse_options(self.options, Query.STREAM), schema)


def ahead_reader(*arguments: Any, **settings: Any) -> "StreamReader":
    """A StreamReader that commits the end of what it plans."""
    from ottla.spark.source.planning import from_json
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


def ahead_member(*arguments: Any, **settings: Any) -> "MemberStreamReader":
    """A MemberStreamReader that commits the end of what it plans."""
    from ottla.spark.source.member_reader import MemberStreamReader

    class AheadMember(MemberStreamReader):
        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            end = super().latestOffset(start, limit)
            self._joined().batch_done()
            return end

    return AheadMember(*arguments, **settings)


def early_member(*arguments: Any, **settings: Any) -> "MemberStreamReader":
    """A MemberStreamReader that lets revocations through as soon as it has planned, with nothing committed."""
    from ottla.spark.source.member_reader import MemberStreamReader

    class EarlyMember(MemberStreamReader):
        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            end = super().latestOffset(start, limit)
            self._joined().no_batch()
            return end

    return EarlyMember(*arguments, **settings)


def skipping_member(*arguments: Any, **settings: Any) -> "MemberStreamReader":
    """A MemberStreamReader that has no tasks for a batch that an earlier run has planned."""
    from ottla.spark.source.member_reader import MemberStreamReader

    class SkippingMember(MemberStreamReader):
        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
            return super().partitions(start, end) if end == self._batch_end else []

    return SkippingMember(*arguments, **settings)
