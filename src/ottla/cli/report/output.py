"""Writes a report: as a page or as JSON, into a file or to stdout."""

import json
from pathlib import Path

import click

from ottla.console.report.report import Report
from ottla.core.text import printable

STDOUT = "-"


def write_report(report: Report, *, output: str, output_format: str) -> None:
    """Write the report. Raises click.ClickException when the file cannot be written."""
    text = report.html() if output_format == "html" else json.dumps(report.to_dict(), indent=1, ensure_ascii=False) + "\n"
    if output == STDOUT:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror or error}") from error
    click.echo("\n".join(map(printable, str(report).splitlines())))
    click.echo(f"\n{output}: {len(text.encode('utf-8', 'replace')):,} bytes", err=True)
