"""Errors of the operating system as sentences."""

import errno

import pytest

from ottla.core.errors import TooManyOpenFiles
from ottla.storage.file_system import storage_error


def test_every_refusal_has_a_sentence() -> None:
    assert "read-only" in str(storage_error("open", "a", OSError(errno.EROFS, "")))
    assert str(storage_error("open", "a", OSError(errno.ELOOP, "too many links"))) == "cannot open a: too many links"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_an_error_of_their_own(number: int) -> None:
    assert isinstance(storage_error("open", "a", OSError(number, "")), TooManyOpenFiles)
    assert not isinstance(storage_error("open", "a", OSError(errno.EIO, "")), TooManyOpenFiles)
