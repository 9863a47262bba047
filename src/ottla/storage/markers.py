"""A control batch in the log: which transaction's end it is, if it is one. Bytes come in, a value goes out."""

from ottla.core.errors import PeerError, StorageError
from ottla.core.records.batch import decode_batch
from ottla.core.records.end_marker import EndMarker, decode_end_marker
from ottla.storage.files import Buffer


def read_end_marker(batch: Buffer) -> EndMarker | None:
    """The marker in a whole control batch; None for another kind, or for one that the cleaner has emptied. StorageError when damaged."""
    try:
        records = decode_batch(batch, verify_crc=False)
        return decode_end_marker(records[0]) if records else None
    except PeerError as error:
        raise StorageError(f"a control batch in the log cannot be read: {error}") from error
