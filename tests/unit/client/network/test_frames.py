"""Frames: golden bytes of a request, and what is refused of a response."""

import pytest

from ottla.client.network.frames import (
    FRAME_BYTES_MAX,
    next_correlation_id,
    request_frame,
    response_body,
    response_bytes,
    unsupported,
)
from ottla.core.errors import PeerError


def test_a_request_with_and_without_tagged_fields() -> None:
    plain = request_frame(3, 9, 7, "me", b"body", is_flexible=False)
    assert plain == bytes.fromhex("0000001000030009000000070002") + b"me" + b"body"
    assert request_frame(3, 9, 7, "me", b"body", is_flexible=True) == bytes.fromhex("00000011") + plain[4:16] + b"\0" + b"body"


def test_correlation_ids_stay_positive() -> None:
    assert next_correlation_id(1) == 2
    assert next_correlation_id(2**31 - 1) == 0


@pytest.mark.parametrize("size", [4, FRAME_BYTES_MAX])
def test_the_length_of_a_response(size: int) -> None:
    assert response_bytes("b:1", size.to_bytes(4, "big")) == size


@pytest.mark.parametrize("size", [-1, 0, 3, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_impossible_lengths_are_refused(size: int) -> None:
    with pytest.raises(PeerError, match=f"broker b:1 announced an answer of {size} bytes"):
        response_bytes("b:1", size.to_bytes(4, "big", signed=True))


def test_the_body_of_a_response() -> None:
    assert response_body("b:1", memoryview(b"\0\0\0\7body"), 7, is_flexible=False) == b"body"
    assert response_body("b:1", memoryview(b"\0\0\0\7\0body"), 7, is_flexible=True) == b"body"
    with pytest.raises(PeerError, match="broker b:1 answered out of order"):
        response_body("b:1", memoryview(b"\0\0\0\6body"), 7, is_flexible=False)


def test_what_a_broker_does_not_support() -> None:
    assert "does not speak version 5 of API 1 (it speaks 0 to 4): a newer one does" in str(unsupported("b:1", 1, 5, (0, 4)))
    assert "(it has no such API)" in str(unsupported("b:1", 1, 5, None))
