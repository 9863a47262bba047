"""What `ottla.testing` offers, and when it is loaded."""

import subprocess
import sys

import pytest

import ottla.testing


def test_every_name_is_there() -> None:
    assert [name for name in ottla.testing.__all__ if getattr(ottla.testing, name).__name__ != name] == []
    with pytest.raises(AttributeError, match="no attribute 'Brocker'"):
        _ = ottla.testing.Brocker


def test_the_plugin_of_pytest_loads_no_broker() -> None:
    check = "import sys, ottla.testing.pytest_plugin; sys.exit('ottla.broker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
