"""The kernel of group records alone: without columns it goes through all records, and it leaves what is no commit to the plain decoder."""

import numpy as np

from ottla.groups.log.arrow import kernels
from ottla.protocol.arrow.batches import OK, scan, slices
from ottla.protocol.arrow.record_kernels import ENDLESS, FULL, ROWS
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch

COMMIT, GROUP, UNKNOWN = b"\0\x01\0\x01g\0\x01t\0\0\0\x01", b"\0\x02\0\x01g", b"\0\x63\0\x01g"


def _decode(keys: list[bytes | None], rows_max: int, rest: np.ndarray | None = None) -> tuple[int, np.ndarray]:
    out, state = np.zeros(kernels.OUT_WORDS, np.int64), np.zeros(kernels.STATE_WORDS, np.int64)
    for column in (kernels.GROUP, kernels.TOPIC, kernels.METADATA, kernels.TOPIC_ID):
        out[column + 3] = ENDLESS
    out[kernels.ROWS_MAX] = rows_max
    out[kernels.REST] = 0 if rest is None else rest.ctypes.data
    batch = encode_batch([Record(number, 0, key, None) for number, key in enumerate(keys)])
    (part,) = slices(scan(batch), (0, 100))
    work = (part.source_at, part.table.ctypes.data, part.tasks.ctypes.data, 0, 1)
    return int(kernels.decode(*work, 0, 100, out.ctypes.data, state.ctypes.data)), state


def test_without_columns_rows_are_counted():
    status, state = _decode([COMMIT, GROUP, None, b"\0", UNKNOWN], 10)
    assert (status, int(state[ROWS]), int(state[kernels.REST_ROWS])) == (OK, 5, 0)


def test_rows_end_where_there_is_no_room():
    status, state = _decode([COMMIT, COMMIT, COMMIT], 2)
    assert (status, int(state[ROWS])) == (FULL, 2)


def test_known_types_that_are_no_commits_are_left_over():
    rest = np.zeros((10, kernels.REST_COLUMNS), np.int64)
    status, state = _decode([COMMIT, GROUP, None, UNKNOWN, b"\0\x03", b"\xff\xff"], 10, rest)
    assert (status, int(state[kernels.REST_ROWS])) == (OK, 2)
    assert rest[:2, kernels.REST_ROW].tolist() == [1, 4]
    assert rest[:2, [kernels.REST_KEY_LENGTH, kernels.REST_VALUE_LENGTH]].tolist() == [[5, -1], [2, -1]]
