"""What a process finds where it starts: streams that are closed or full, and a limit of its memory."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

SCRIPT = """
import os
from ottla.cli.main import open_standard_streams
open_standard_streams()
null = os.stat(os.devnull)
opened = [n for n in (0, 1, 2) if os.fstat(n)[:2] == null[:2] and os.get_inheritable(n)]
next_one = os.open("/", os.O_RDONLY)
raise SystemExit(10 * next_one + len(opened))
"""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ""])
def test_what_is_closed_is_opened(closed: str) -> None:
    command = f'exec {sys.executable} -c "$SCRIPT" {closed}'
    environment = {"SCRIPT": SCRIPT, "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run(["sh", "-c", command], input=b"", env=environment, capture_output=True, check=False)
    assert ran.returncode == 30 + closed.count("-")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("produce --bootstrap-server 127.0.0.1:1 --topic t <&-", b""),
        ("--help >&-", b""),
        ("--help >/dev/full", b"Error: the output cannot be written: No space left on device\n"),
    ],
)
def test_a_command_without_its_streams_has_no_traceback(command: str, said: bytes) -> None:
    ran = subprocess.run(["sh", "-c", f"{sys.executable} -m ottla {command}"], input=b"", capture_output=True, check=False)
    assert b"Traceback" not in ran.stderr
    assert said in ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space")
@pytest.mark.parametrize(("limit", "whose"), [(120_000_000, "the kernel's"), (300_000_000, "Python's")])
def test_a_limit_of_memory(tmp_path: Path, limit: int, whose: str) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_batch([Record(0, 0, None, bytes(100_000_000))], codec=Codec.ZSTD))
    ran = subprocess.run(
        [sys.executable, "-m", "ottla", "dump-log", "--print-data-log", "--files", str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        check=False,
    )
    assert ran.stderr.decode() == "Error: there is not enough memory: raise its limit (ulimit -v), or read less at once\n", whose
    assert ran.returncode == 1
