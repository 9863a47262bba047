"""A buffer whose memory is taken as it is written, not when it is made: `bytearray(n)` writes zeros to all of it.

A frame's size is its peer's claim; its memory is what the peer has sent. Bytes that have not arrived are never read.
"""

from ctypes import c_char_p, c_ssize_t, py_object, pythonapi

_from_string_and_size = pythonapi.PyByteArray_FromStringAndSize
_from_string_and_size.restype = py_object
_from_string_and_size.argtypes = (c_char_p, c_ssize_t)


def unwritten_buffer(size: int) -> bytearray:
    """`size` bytes of any content. Raises MemoryError."""
    buffer: bytearray = _from_string_and_size(None, size)
    return buffer
