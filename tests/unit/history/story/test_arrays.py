from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.story.arrays import pack, plain, unpack, unsigned


@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**32 - 1)) | st.text(), max_size=4))
def test_a_container_gives_back_its_document(values: dict[str, object]) -> None:
    document = {
        name: unsigned(value, largest=max(value, default=0)) if isinstance(value, list) else value for name, value in values.items()
    }
    assert plain(unpack(pack(document))) == plain({key: text(value) for key, value in document.items()} if document else document)


def text(value: object) -> object:
    """Lone surrogates cannot be written."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def test_arrays_lie_at_multiples_of_eight_in_little_endian() -> None:
    packed = pack({"a": array("B", [1]), "b": array("H", [0x0102])})
    assert len(packed) % 8 == 0
    assert packed[-16:] == bytes([1, 0, 0, 0, 0, 0, 0, 0]) + bytes([2, 1, 0, 0, 0, 0, 0, 0])


def test_the_smallest_type_is_taken() -> None:
    assert [unsigned([], largest=largest).typecode for largest in (255, 256, 65_536)] == ["B", "H", "I"]
    with pytest.raises(ValueError, match="32 bits"):
        unsigned([], largest=2**32)


@pytest.mark.parametrize("data", [b"", b"{}", b"OTLASTRY\xff\xff\xff\xff"])
def test_other_bytes_are_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(ValueError, match="no story"):
        unpack(data)


def test_what_is_neither_json_nor_an_array_is_refused() -> None:
    with pytest.raises(TypeError, match="set"):
        pack({"a": {1}})
