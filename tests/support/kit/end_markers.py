"""A transaction's end as the record of its control batch."""

from struct import pack

from ottla.protocol.records.control import CONTROL_KEY, EndMarker


def encode_end_marker(marker: EndMarker) -> tuple[bytes, bytes]:
    """Key and value of the one record of a control batch, in version 0."""
    return CONTROL_KEY.pack(0, marker.type), pack(">hi", 0, marker.coordinator_epoch)
