"""`ottla docs`: the pages of the documentation, which come with the package. It prints them as they are, in Markdown."""

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
def command(page: str | None) -> None:
    """Print the PAGE of the documentation, such as `settings`; without one, list the pages and the path of their files."""
    pages = {path.stem: path for path in sorted(directory().glob("*.md"))}
    if page is None:
        click.echo(f"Pages in {directory()}, each printed by `ottla docs PAGE`:")
        width = max(map(len, pages)) + 2
        for name, path in pages.items():
            click.echo(f"  {name:<{width}}{_title(path)}")
        return
    name = page.removesuffix(".md")
    if name not in pages:
        raise click.BadParameter(f"there is no page {page}; the pages are {', '.join(pages)}", param_hint="PAGE")
    click.echo(pages[name].read_text("utf-8"), nl=False)


def _title(path: Path) -> str:
    """The page's first heading."""
    lines = path.read_text("utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")


COMMAND = command
