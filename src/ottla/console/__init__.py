"""The web console: for now the report of a group as one page (docs/report.md); the live pages are not there yet (docs/skipped.md)."""
