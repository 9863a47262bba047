"""Warming up loads every kernel in the form that the decoder calls."""

import subprocess
import sys

CODE = """
import sys
from ottla.columnar import warm
warm.warm_up()
assert "pyarrow" not in sys.modules, "Arrow starts threads, and this runs before a fork"
from ottla.columnar import RecordBatchDecoder, kernels
from ottla.core.model import Header, Record
from ottla.core.records.batch import encode_batch
entries = ("scan_headers", "parse_records", "gather_bytes", "gather_headers")
before = {name: len(getattr(kernels, name).signatures) for name in entries}
decoder = RecordBatchDecoder("t", 0, columns=("key", "headers", "timestamp"))
list(decoder.decode(encode_batch([Record(0, 0, b"k", b"v", (Header("h", b"x"),))])))
print({name: len(getattr(kernels, name).signatures) - before[name] for name in entries}, min(before.values()))
"""


def test_the_decoder_compiles_nothing_more_and_arrow_is_not_loaded():
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "{'scan_headers': 0, 'parse_records': 0, 'gather_bytes': 0, 'gather_headers': 0} 1"
