"""Without an extra, what needs it says which one to install, and everything else works."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ottla.extras import EXTRAS, MissingExtraError, missing_packages, require

ROOT = Path(__file__).parents[2]
# Every module of the wheel is imported where no optional package can be.
IMPORT_ALL = """
import importlib, json, pkgutil, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
import ottla
said = {}
def look(package):
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if info.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            said[info.name] = f"{type(error).__name__}: {error}"
        else:
            if info.ispkg:
                look(module)
look(ottla)
print(json.dumps(said))
"""
OF_EXTRAS = (
    "ottla.cli.produce",
    "ottla.client.consumer.arrow",
    "ottla.columnar",
    "ottla.groups.log.arrow",
    "ottla.log.compiled",
    "ottla.protocol.arrow",
    "ottla.spark",
    "ottla.testing.",
)
SPARK = 'MissingExtraError: pyspark is not installed: pip install "ottla[spark]"'
ARROW = 'MissingExtraError: numpy, numba, pyarrow are not installed: pip install "ottla[arrow]"'


def test_every_module_can_be_imported_without_extras_or_names_the_one_it_needs() -> None:
    optional = json.dumps([*EXTRAS["test"], "hypothesis"])
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, optional], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    unclear = {name: text for name, text in said.items() if not re.fullmatch(r'MissingExtraError: .+: pip install "ottla\[\w+\]"', text)}
    assert unclear == {}, "a package that needs an extra calls ottla.extras.require in its __init__"
    assert not [name for name in said if not name.startswith(OF_EXTRAS)]
    assert (said["ottla.columnar"], said["ottla.spark"]) == (ARROW, SPARK)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_is_looked_for(extra: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def installed(name: str) -> set[str]:
        found = set()
        for requirement in declared[name]:
            more = re.fullmatch(r"ottla\[(.+)\]", requirement)
            if more is None:
                found.add(re.match(r"[\w-]+", requirement)[0].replace("-", "_"))  # type: ignore[index]
            for each in more[1].split(",") if more else ():
                found |= installed(each)
        return found

    assert {{"kafka": "kafka_python", "jwt": "pyjwt"}.get(name, name) for name in EXTRAS[extra]} <= installed(extra)


def test_what_is_missing_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_packages("spark") == []
    require("spark")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r'^pandas is not installed: pip install "ottla\[spark\]"$') as one:
        require("spark")
    assert one.value.name == "pandas"
    require("spark", "pyspark", "confluent_kafka")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"^pyspark, pandas are not installed: "):
        require("demo")
