"""Warming up loads every kernel in the form that the decoder calls."""

import subprocess
import sys

CODE = """
import sys
from ottla.columnar import preloading
preloading.load_kernels()
assert "pyarrow" not in sys.modules, "Arrow starts threads, and this runs before a fork"
from ottla.columnar import GroupRecordDecoder, RecordBatchDecoder
from ottla.protocol.arrow import record_kernels
from ottla.groups.log.arrow import kernels as group_record_kernels
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec
entries = {"scan_headers": record_kernels, "choose": record_kernels, "sound_batches": record_kernels, "gather_headers": record_kernels}
entries = {name: getattr(module, name) for name, module in entries.items()}
entries |= {"decode": record_kernels.decode, "decode group records": group_record_kernels.decode}
before = {name: len(kernel.signatures) for name, kernel in entries.items()}
decoder = RecordBatchDecoder("t", 0, columns=("key", "headers", "timestamp"))
records = [Record(0, 0, b"k", b"v", (Header("h", b"x"),))]
for codec in (Codec.NONE, Codec.LZ4):
    list(decoder.decode(encode_batch(records, codec=codec)))
    list(GroupRecordDecoder(0).decode(encode_batch(records, codec=codec)))
print({name for name, kernel in entries.items() if len(kernel.signatures) != before[name]}, min(before.values()))
"""


def test_the_decoder_compiles_nothing_more_and_arrow_is_not_loaded():
    result = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set() 1"
