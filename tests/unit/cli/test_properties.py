"""Java properties."""

from ottla.cli.properties import parse_properties


def test_properties_as_java_reads_them() -> None:
    text = "# comment\n! too\n\n a = b \nc:d\ne f\ng\nlong=one, \\\n   two\nk\\=ey=v\\u0041\\tx\\\\\n"
    assert parse_properties(text) == {"a": "b ", "c": "d", "e": "f", "g": "", "long": "one, two", "k=ey": "vA\tx\\"}
