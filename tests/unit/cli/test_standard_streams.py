"""A process that was started without stdin, stdout or stderr does not get a file or a socket in their place."""

import subprocess
import sys

import pytest

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
