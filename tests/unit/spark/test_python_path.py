"""The start of Spark's Python processes: the installed PySpark, and whatever else the interpreter starts with."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from ottla.spark.python_path.sitecustomize import FOLDER, without_archives


def test_archives_of_the_installed_pyspark_are_left_out(tmp_path: Path):
    installed, lib, elsewhere = tmp_path / "site-packages", tmp_path / "site-packages/pyspark/python/lib", tmp_path / "spark/python/lib"
    for package in ("pyspark", "py4j"):
        (installed / package).mkdir(parents=True)
        (installed / package / "__init__.py").touch()
    own = [str(lib / "pyspark.zip"), str(lib / "py4j-0.10-src.zip")]
    others = [str(elsewhere / "pyspark.zip"), "/jobs/mine.zip", "/job"]
    assert without_archives([*own, *others, str(installed)]) == [*others, str(installed)]
    for without in ([*own, *others], [*own, str(tmp_path / "empty")]):
        assert without_archives(without) == without, "no PySpark is installed: they are needed"
    (installed / "py4j" / "__init__.py").unlink()
    (installed / "py4j").rmdir()
    assert without_archives([*own, str(installed)]) == [*own, str(installed)]


def test_the_archives_of_this_machine_are_left_out_and_another_sitecustomize_runs(tmp_path: Path):
    """With the path that Spark gives to its Python processes."""
    archives = map(str, (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.hidden = __name__")
    path = [*archives, FOLDER, str(tmp_path), os.environ.get("PYTHONPATH", "")]
    script = "import py4j, pyspark.daemon, sitecustomize; print(py4j.__file__, pyspark.daemon.__file__, hidden, sitecustomize.__file__)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert ".zip" not in done.stdout
    assert done.stdout.split()[2:] == ["sitecustomize", str(Path(FOLDER, "sitecustomize.py"))]
