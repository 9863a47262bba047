"""The manual pages: every command and option is in them, and their text is no markup."""

import re
import shutil
import subprocess

import click
import pytest

from ottla.cli.main import main
from ottla.cli.man_pages import man_pages

PAGES = man_pages(main)


def test_every_command_has_a_page_with_every_option() -> None:
    names = main.list_commands(click.Context(main))
    assert {"ottla", *(f"ottla-{name}" for name in names)} < PAGES.keys()
    assert {"ottla-pipeline-run", "ottla-pipeline-list"} < PAGES.keys()
    for name in names:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for option in command.params:
            assert all(each.replace("-", "\\-") in PAGES[f"ottla-{name}"] for each in option.opts if each.startswith("-")), (name, option)


def test_a_page_has_the_sections_of_a_manual_page() -> None:
    page = PAGES["ottla-advise"]
    sections = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
    assert sections == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"]
    assert page.startswith('.TH "OTTLA\\-ADVISE" 1 "" "ottla ')
    assert ".TP\n\\fB\\-\\-properties FILE\\fR\nA consumer.properties.\n" in page
    assert "\\fBottla\\-advise\\fR(1)" in PAGES["ottla"]


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
        ["groff", "-man", "-ww", "-Tutf8", "-P-cbou"], input="".join(PAGES.values()), capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    assert "--bootstrap-server" in ran.stdout
