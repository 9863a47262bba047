"""Columns made of memory that kernels fill, and how much capacity they get."""

import ctypes

import pyarrow as pa

from ottla.protocol.arrow.decoding.arrow_buffers import BYTES_MAX, BYTES_MIN, Capacity, Numbers, Strings


def test_numbers_with_and_without_nulls():
    column = Numbers(pa.int32(), 3, has_nulls=True)
    ctypes.memmove(column.address, (ctypes.c_int32 * 3)(7, 8, 9), 12)
    ctypes.memset(column.bits, 0b101, 1)
    assert column.array(3).to_pylist() == [7, 8, 9]
    assert column.array(3, 1).to_pylist() == [7, None, 9]
    assert Numbers(pa.int64(), 1).bits == 0


def test_bits_that_are_set_later():
    column = Numbers(pa.bool_(), 10)
    ctypes.memset(column.address, 0, 2)
    column.set_bits([0, 9])
    assert column.array(10).to_pylist() == [True] + [False] * 8 + [True]


def test_strings_take_what_was_used():
    column = Strings(pa.string(), 2, 100)
    offsets, data, bits, capacity = column.words
    ctypes.memmove(offsets, (ctypes.c_int32 * 3)(0, 2, 2), 12)
    ctypes.memmove(data, b"abc", 3)
    ctypes.memset(bits, 0b01, 1)
    assert capacity == 100
    assert column.array(2, 2, 1).to_pylist() == ["ab", None]
    assert column.array(2, 2, 0).to_pylist() == ["ab", ""]


def test_lists_lie_one_after_another():
    column = Strings(pa.binary(), 2, 0)
    ctypes.memmove(column.words[0], (ctypes.c_int32 * 3)(0, 1, 3), 12)
    assert column.list_array(pa.list_(pa.int64()), 2, pa.array([4, 5, 6]), 0).to_pylist() == [[4], [5, 6]]


def test_capacity_follows_what_is_used():
    capacity = Capacity()
    assert capacity.plan(1000) == 1000
    assert capacity.plan(1 << 40) == BYTES_MAX
    capacity.learn(1_000_000, was_full=False)
    assert capacity.plan(1 << 40) == 1_250_000
    capacity.learn(1_250_000, was_full=True)
    assert capacity.plan(1 << 40) == BYTES_MAX
    capacity.learn(3, was_full=False)
    assert capacity.plan(1 << 40) == BYTES_MIN
