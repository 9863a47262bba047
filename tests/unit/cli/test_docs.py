"""`ottla docs` prints pages, and manual pages show every option."""

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.commands import docs
from ottla.cli.main import main
from ottla.cli.man_pages import man_pages

SOURCE = Path(ottla.__file__).parent
PAGES = {path.stem: path for path in docs.IN_CHECKOUT.glob("*.md")}


def test_a_page_is_printed_as_it_is() -> None:
    for page in ("settings", "settings.md"):
        done = CliRunner().invoke(main, ["docs", page])
        assert (done.exit_code, done.output) == (0, PAGES["settings"].read_text())


def test_the_list_has_every_page_with_its_title_and_says_where_they_are() -> None:
    done = CliRunner().invoke(main, ["docs"])
    assert done.exit_code == 0
    first, *lines = done.output.splitlines()
    assert str(docs.IN_CHECKOUT) in first
    assert {line.split()[0] for line in lines} == PAGES.keys()
    assert ["settings", "Settings"] in [line.split(None, 1) for line in lines]
    assert all(len(line.split()) > 1 for line in lines), "a page without a title"


def test_an_unknown_page_is_answered_by_their_names() -> None:
    done = CliRunner().invoke(main, ["docs", "setings"])
    assert done.exit_code == 2
    assert "there is no page setings; the pages are " in " ".join(done.output.split())


def test_pages_as_json() -> None:
    listed = json.loads(CliRunner().invoke(main, ["docs", "--json"]).output)
    assert {page["page"]: page["path"] for page in listed["pages"]} == {name: str(path) for name, path in PAGES.items()}
    page = json.loads(CliRunner().invoke(main, ["docs", "settings", "--json"]).output)
    assert (page["title"], page["text"]) == ("Settings", PAGES["settings"].read_text())


def test_manual_pages_are_written(tmp_path: Path) -> None:
    target = tmp_path / "man" / "man1"
    done = CliRunner().invoke(main, ["docs", "--man", str(target)])
    files = sorted(path.name for path in target.iterdir())
    assert (done.exit_code, done.output) == (0, f"{len(files)} manual pages written to {target}\n")
    assert {"ottla.1", "ottla-groups.1", "ottla-pipeline-run.1"} <= set(files)
    assert sorted(json.loads(CliRunner().invoke(main, ["docs", "--man", str(target), "--json"]).output)["files"]) == files
    assert (target / "ottla-groups.1").read_text().startswith('.TH "OTTLA\\-GROUPS" 1 ')


def test_manual_pages_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(main, ["docs", "--man", str(tmp_path / "file" / "man1")])
    assert (done.exit_code, done.output.split(":")[0]) == (1, "Error")
    assert "the manual pages cannot be written to" in done.output
    done = CliRunner().invoke(main, ["docs", "settings", "--man", str(tmp_path)])
    assert done.exit_code == 2
    assert "--man writes the pages of all commands: leave PAGE out" in done.output


def test_the_pages_inside_an_installed_package_go_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "only.md").write_text("# The only one\n")
    monkeypatch.setattr(docs, "INSTALLED", tmp_path)
    assert CliRunner().invoke(main, ["docs", "only"]).output == "# The only one\n"


def texts(path: Path) -> Iterator[str]:
    """The strings of a file that a user may see: all but docstrings, which only commands print, as their help."""
    tree = ast.parse(path.read_text())
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (node not in docstrings or path.parent.name == "commands"):
            yield node.value


def test_messages_point_to_pages_that_the_package_has() -> None:
    """By the command that prints them: an installed package has no folder `docs` where its user is."""
    pointed = {}
    for path in sorted(path for path in SOURCE.rglob("*.py") if "docs" in path.read_text()):
        said = " ".join(" ".join(texts(path)).split())
        pages, files = re.findall(r"`ottla docs ([a-z-]+)`", said), re.findall(r"\S*docs/[\w-]+\.md", said)
        assert files == [], path
        assert set(pages) <= PAGES.keys(), path
        pointed[path] = pages
    assert any(pointed.values())


MANUALS = man_pages(main)


def test_every_command_has_a_page_with_every_option() -> None:
    names = main.list_commands(click.Context(main))
    assert {"ottla", *(f"ottla-{name}" for name in names)} < MANUALS.keys()
    assert {"ottla-pipeline-run", "ottla-pipeline-list"} < MANUALS.keys()
    for name in names:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for option in command.params:
            assert all(each.replace("-", "\\-") in MANUALS[f"ottla-{name}"] for each in option.opts if each.startswith("-")), (
                name,
                option,
            )


def test_a_page_has_the_sections_of_a_manual_page() -> None:
    page = MANUALS["ottla-advise"]
    sections = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
    assert sections == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"]
    assert page.startswith('.TH "OTTLA\\-ADVISE" 1 "" "ottla ')
    assert ".TP\n\\fB\\-\\-properties FILE\\fR\nA consumer.properties.\n" in page
    assert "\\fBottla\\-advise\\fR(1)" in MANUALS["ottla"]


def test_text_is_never_markup() -> None:
    @click.command("odd", help="\b\n.not a request\n'neither\n\nA \\fB word.")
    def odd() -> None:
        """Do nothing."""

    page = man_pages(click.Group("x", commands=[odd]))["ottla-odd"]
    assert "\n.nf\n\\&.not a request\n\\&'neither\n.fi\n" in page
    assert "\nA \\efB word.\n" in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff, which formats manual pages, is not installed")
def test_groff_has_nothing_to_complain_about() -> None:
    ran = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-cbou"], input="".join(MANUALS.values()), capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    assert "--bootstrap-server" in ran.stdout
