"""What a command says, by stream and as a document."""

import json

from ottla.cli.groups.transcript import Transcript


def test_streams_and_document() -> None:
    transcript = Transcript()
    transcript.say("one", "two")
    transcript.warn("careful")
    transcript.add(groups=[])
    assert (transcript.out, transcript.err) == (["one", "two"], ["careful"])
    assert json.loads(transcript.json_text()) == {"groups": []}


def test_names_cannot_forge_lines_or_control_the_terminal() -> None:
    transcript = Transcript()
    transcript.say("group g\nError: all is lost")
    transcript.warn("group \x1b[2J has no members")
    transcript.export("a\nb")
    assert transcript.out == ["group g\\nError: all is lost", "a\nb"]
    assert transcript.err == ["group \\x1b[2J has no members"]


def test_an_error_is_in_both() -> None:
    transcript = Transcript()
    transcript.error("it failed")
    assert transcript.out == ["", "Error: it failed"]
    assert json.loads(transcript.json_text()) == {"errors": ["it failed"]}
