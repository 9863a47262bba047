"""Drop-ins: found by their file's name, and never silently left out."""

import sys
from pathlib import Path

import pytest

from ottla.discovery import drop_ins


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "droppable"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "droppable"]:
        del sys.modules[name]


def test_a_new_file_is_a_new_drop_in(package: Path) -> None:
    import droppable

    (package / "one.py").write_text("THING = 1")
    (package / "_helper.py").write_text("")
    assert drop_ins(droppable, "THING", int) == {"one": 1}


def test_a_file_without_its_constant_is_an_error_that_names_it(package: Path) -> None:
    import droppable

    (package / "two.py").write_text("THING = 'not a number'")
    with pytest.raises(TypeError, match=r"droppable\.two must hold THING, a int"):
        drop_ins(droppable, "THING", int)


def test_a_directory_without_modules_is_an_error(package: Path) -> None:
    import droppable

    with pytest.raises(LookupError, match="droppable has no modules, or its directory cannot be read"):
        drop_ins(droppable, "THING", int)
