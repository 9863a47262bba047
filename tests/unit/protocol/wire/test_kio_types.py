"""kio is loaded without Hypothesis, which stays importable; with it where a program has loaded it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("before", ["", "import hypothesis.strategies;"])
def test_kio_registers_its_types_only_where_hypothesis_is_loaded(before: str) -> None:
    script = f"""{before}import sys, ottla.protocol.wire.messages
from kio.static import _phantom
print("hypothesis" in sys.modules, _phantom.hypothesis is not None)
import hypothesis.strategies"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [str(bool(before))] * 2
