"""Any values of a record's class, by its annotations, for Hypothesis; and the bytes of a coordinator's record."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from ottla.protocol.record_codec import DecodedRecord, Int8, Int16, Int32, Int64, RecordType, UInt16, Uuid, Wire

PROVIDERS = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=5),
    bytes: st.binary(max_size=5),
    Int8: st.integers(-(2**7), 2**7 - 1),
    Int16: st.integers(-(2**15), 2**15 - 1),
    UInt16: st.integers(0, 2**16 - 1),
    Int32: st.integers(-(2**31), 2**31 - 1),
    Int64: st.integers(-(2**63), 2**63 - 1),
    Uuid: st.binary(min_size=16, max_size=16),
}


def _of_annotation(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation in PROVIDERS:
        return PROVIDERS[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        notes = [note for note in annotation.__metadata__ if not isinstance(note, Wire)]
        return _of_annotation(Annotated[(arguments[0], *notes)] if notes else arguments[0])
    if origin is tuple:
        return st.lists(_of_annotation(arguments[0]), max_size=2).map(tuple)
    if type(None) in arguments:
        return st.none() | _of_annotation(next(part for part in arguments if part is not type(None)))
    return values_of(annotation)


def values_of(record: Any) -> st.SearchStrategy[Any]:
    """Any values of a record's class, by its annotations."""
    return st.builds(record, **{name: _of_annotation(hint) for name, hint in get_type_hints(record, include_extras=True).items()})


def encode_record(types: Mapping[int, RecordType], record: DecodedRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a coordinator's record."""
    record_type = types[record.record_type]
    key = record_type.encode_key(record.record_type, record.key)
    if record.value is None or record.value_version is None:
        return key, None
    return key, record_type.encode_value(record.value, record.value_version)
