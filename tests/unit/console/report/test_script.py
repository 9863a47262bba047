import re
import shutil
import subprocess

import pytest

from ottla.console.report.script import asset, joined_script


def test_the_script_is_ascii_without_imports_and_cannot_end_its_element() -> None:
    script = joined_script()
    assert script.isascii()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "</script" not in script
    assert "<!--" not in script


def test_every_module_stands_after_those_that_it_imports() -> None:
    script = joined_script()
    begins = {name: script.index(f"const module_{name} =") for name in re.findall(r"^const module_(\w+) = \(", script, re.MULTILINE)}
    assert list(begins)[-1] == "main"
    for name in begins:
        for imported in re.findall(r'from "\./(\w+)\.js"', asset(f"{name}.js")):
            assert begins[imported] < begins[name]


def test_everything_that_is_imported_is_exported() -> None:
    script = joined_script()
    for names, module in re.findall(r"const \{([^}]*)\} = module_(\w+);", script):
        exported = re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", asset(f"{module}.js"), re.MULTILINE)
        assert {name.strip() for name in names.split(",")} <= set(exported)


def test_the_script_asks_for_nothing_and_writes_no_markup() -> None:
    script = joined_script()
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http://",
        "https://",
    ):
        assert word not in script


def test_it_is_valid_javascript() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node; the tests in tests/console run the script in a browser")
    subprocess.run([node, "--check", "-"], input=joined_script(), text=True, check=True)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"const module_(\w+) = \(", joined_script()))))
def test_modules_are_small_and_say_what_they_do(name: str) -> None:
    text = asset(f"{name}.js")
    assert text.startswith("/**\n * ")
    assert text.count("\n") <= 300
