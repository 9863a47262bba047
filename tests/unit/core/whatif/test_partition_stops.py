from ottla.core.whatif.partition_stops import PartitionStops, partitions_of

ALL = partitions_of({"t": [0, 1, 2], "u": [0]})
NONE = partitions_of({})


def test_partitions_without_an_owner_and_with_a_silent_one() -> None:
    stops = PartitionStops()
    stops.start(0)
    stops.replace(NONE, ALL, read_before=True, read_after=True)
    stops.advance(1_000, is_running=True)
    stops.replace(ALL, ALL, read_before=True, read_after=False)
    stops.advance(3_000, is_running=True)
    stops.replace(ALL, NONE, read_before=False, read_after=True)
    stops.advance(3_500, is_running=True)
    assert (stops.waiting_ms, stops.rebalancing_ms) == (8_000, 2_000)


def test_a_partition_that_another_member_reads_does_not_wait() -> None:
    stops = PartitionStops()
    stops.replace(NONE, ALL, read_before=True, read_after=False)
    stops.replace(NONE, ALL, read_before=True, read_after=True)
    stops.advance(1_000, is_running=True)
    assert (stops.waiting_ms, stops.rebalancing_ms) == (0, 0)


def test_a_group_without_processes_stops_nothing() -> None:
    stops = PartitionStops()
    stops.replace(NONE, ALL, read_before=True, read_after=True)
    stops.replace(ALL, NONE, read_before=True, read_after=True)
    stops.advance(1_000, is_running=False)
    assert stops.rebalancing_ms == 0
