"""A buffer whose memory is taken as it is written, not when it is made: `bytearray(n)` writes zeros to all of it.

The size of a frame is what its peer claims; what it costs is what the peer sends. Nobody reads a byte of it that has not come.
"""

from ctypes import c_char_p, c_ssize_t, py_object, pythonapi

_from_string_and_size = pythonapi.PyByteArray_FromStringAndSize
_from_string_and_size.restype = py_object
_from_string_and_size.argtypes = (c_char_p, c_ssize_t)


def unwritten_buffer(size: int) -> bytearray:
    """`size` bytes of any content. Raises MemoryError."""
    buffer: bytearray = _from_string_and_size(None, size)
    return buffer
