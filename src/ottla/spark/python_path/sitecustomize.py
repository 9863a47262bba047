"""What Python runs first in Spark's Python processes: `sessions` puts this folder into their PYTHONPATH.

Spark puts the zip archives of PySpark first in the path of these processes. They hold source alone, so each process compiled all that it
needed of them: 0.6 to 0.8 s of CPU, one kind of process after the other before the first read. The installed files are the same ones, and
compiled. A sitecustomize of the user or the distribution, which this one hides, runs as well.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Final

FOLDER: Final = str(Path(__file__).parent)


def without_archives(path: Sequence[str]) -> list[str]:
    """`path` without the zip archives of the PySpark that is installed itself in another entry."""
    archives = [entry for entry in path if entry.endswith(".zip")]
    installed = [entry for entry in path if entry not in archives]
    found = [PathFinder.find_spec(name, installed) for name in ("pyspark", "py4j")]
    homes = [Path(spec.origin).parent for spec in found if spec is not None and spec.origin is not None]
    if len(homes) < len(found):
        return list(path)
    return [entry for entry in path if entry not in archives or Path(entry).parent != homes[0] / "python" / "lib"]


def run_hidden(path: Sequence[str]) -> None:
    """Run the next sitecustomize of this path, if it has one."""
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in path if entry != FOLDER])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    sys.path[:] = without_archives(sys.path)
    run_hidden(sys.path)
