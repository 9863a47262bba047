"""`ottla docs`: the pages of the documentation, which come with the package. It prints them as they are, in Markdown, and
writes the manual pages of the commands.
"""

import json
from pathlib import Path

import click

import ottla

_PACKAGE = Path(ottla.__file__).parent
INSTALLED, IN_CHECKOUT = _PACKAGE / "docs", _PACKAGE.parents[1] / "docs"


def directory() -> Path:
    """Where the pages are: inside the installed package, or in the checkout that this is."""
    return INSTALLED if INSTALLED.is_dir() else IN_CHECKOUT


@click.command("docs", short_help="Print a page of the documentation.")
@click.argument("page", required=False)
@click.option(
    "--man", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write the manual pages of all commands to DIR."
)
@click.option("--json", "as_json", is_flag=True, help="Print the list of pages, or the PAGE with its text, as JSON.")
def command(page: str | None, man: Path | None, as_json: bool) -> None:
    """Print the PAGE of the documentation, such as `settings`; without one, list the pages and the path of their files.

    With --man, write manual pages instead: into ~/.local/share/man/man1, say, where `man ottla-groups` finds them.
    """
    if man is not None:
        if page is not None:
            raise click.UsageError("--man writes the pages of all commands: leave PAGE out")
        _write_man_pages(man, as_json=as_json)
        return
    pages = {path.stem: path for path in sorted(directory().glob("*.md"))}
    if page is None:
        _list(pages, as_json=as_json)
        return
    name = page.removesuffix(".md")
    if name not in pages:
        raise click.BadParameter(f"there is no page {page}; the pages are {', '.join(pages)}", param_hint="PAGE")
    text = pages[name].read_text("utf-8")
    click.echo(json.dumps(_document(pages[name]) | {"text": text}, indent=2) if as_json else text, nl=as_json)


def _list(pages: dict[str, Path], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"directory": str(directory()), "pages": [_document(path) for path in pages.values()]}, indent=2))
        return
    click.echo(f"Pages in {directory()}, each printed by `ottla docs PAGE`:")
    width = max(map(len, pages)) + 2
    for name, path in pages.items():
        click.echo(f"  {name:<{width}}{_title(path)}")


def _document(path: Path) -> dict[str, str]:
    return {"page": path.stem, "title": _title(path), "path": str(path)}


def _write_man_pages(target: Path, *, as_json: bool) -> None:
    """Write the manual pages. Raises click.ClickException where that is not possible."""
    from ottla.cli.man_pages import man_pages

    main = click.get_current_context().find_root().command
    assert isinstance(main, click.Group)
    pages = man_pages(main)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (target / f"{name}.1").write_text(text, "utf-8")
    except OSError as error:
        raise click.ClickException(f"the manual pages cannot be written to {target}: {error.strerror or error}") from error
    written = {"directory": str(target), "files": [f"{name}.1" for name in pages]}
    click.echo(json.dumps(written, indent=2) if as_json else f"{len(pages)} manual pages written to {target}")


def _title(path: Path) -> str:
    """The page's first heading."""
    lines = path.read_text("utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")


COMMAND = command
