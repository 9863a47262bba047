"""Values of the engine: each request has its own response."""

from ottla.core.client.consumer.values import ListOffsets, Metadata, OffsetFetch


def test_two_requests_are_never_the_same() -> None:
    assert Metadata(("t",)) != Metadata(("t",))
    assert len({OffsetFetch("g", ()), OffsetFetch("g", ()), ListOffsets({}, False)}) == 3
