"""Retention takes whole segments out of the log: expired and durable ones, and never the log's end."""

from ottla.storage.file_system import Files
from ottla.storage.log.durability import Durability
from ottla.storage.log.log_retention import LogRetention
from ottla.storage.log.segment import Segment
from ottla.storage.log.segments import Segments
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles


def segment(files: Files, base_offset: int) -> Segment:
    made = Segment(files, "t-0", base_offset, index_interval_bytes=1, made_ms=0)
    made.create()
    return made


class Case:
    """Three segments with the base offsets 0, 10 and 20; the log ends at 30, and all was read until `start`."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.segments = Segments([segment(self.files, base) for base in (0, 10, 20)])
        self.durability = Durability(self.files, "t-0", offset=30, undurable=())
        self.rolls = 0

    def take(self, start: int, *, segments_max: int | None = None, can_roll: bool = True) -> tuple[str, ...] | None:
        def roll() -> bool:
            self.rolls += 1
            if can_roll:
                self.segments.add(segment(self.files, 30))
            return can_roll

        retention = LogRetention(self.files, segments=self.segments, durability=self.durability)
        return retention.take_expired(
            LogSettings(cleanup_policy="compact"),
            log_start_offset=start,
            high_watermark=30,
            log_end_offset=30,
            now_ms=0,
            segments_max=segments_max,
            roll=roll,
        )

    @property
    def bases(self) -> list[int]:
        return [each.base_offset for each in self.segments.all()]


def test_what_lies_below_the_logs_start_goes() -> None:
    case = Case()
    assert case.take(9) is None
    case.files.open("t-0/00000000000000000000.snapshot")
    names = case.take(20, segments_max=1)
    assert names is not None
    assert {name.rpartition("/")[2] for name in names} == {
        f"00000000000000000000{suffix}.deleted" for suffix in (".log", ".index", ".timeindex", ".snapshot")
    }
    assert all(case.files.exists(name) for name in names)
    assert (case.bases, case.rolls) == ([10, 20], 0)


def test_when_all_expires_a_new_segment_keeps_the_logs_end() -> None:
    case = Case()
    assert case.take(30)
    assert (case.bases, case.rolls) == ([30], 1)
    full = Case()
    assert full.take(30, can_roll=False)
    assert full.bases == [20], "none can be made: the last one stays"


def test_what_is_not_durable_stays() -> None:
    case = Case()
    case.durability.rolled(case.segments.all()[1], 20, b"")
    assert case.take(30)
    assert case.bases == [10, 20, 30]
    assert case.take(30) is None
