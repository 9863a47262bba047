"""Loads kio's types without Hypothesis, before another module loads them with it.

kio loads Hypothesis wherever it is installed, to register its types for tests: 0.4 s of every start on a developer's machine. In a program
that has loaded Hypothesis before, it registers them.
"""

import sys
from importlib.util import find_spec

if "hypothesis" not in sys.modules and find_spec("hypothesis") is not None:
    sys.modules["hypothesis"] = None  # type: ignore[assignment] # Python's mark of a module that cannot be imported
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]
