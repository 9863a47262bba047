"""The SCRAM credentials of the cluster's users, as replayed from the metadata log; and what a client may change of them (KIP-554).

Sources: ScramControlManager, ScramImage. A credential is kept by mechanism and user; a password is not in it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from ottla.protocol.errors import ApiError, ErrorCode

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384


class Credential(NamedTuple):
    """How a user's password is checked."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ScramCredentials:
    """Only `replay` changes them."""

    def __init__(self) -> None:
        self._of_user: dict[str, dict[int, Credential]] = {}

    def of(self, mechanism: str, user: str) -> Credential | None:
        """The credential of a user for a mechanism; None when there is none."""
        return next((found for number, found in self._of_user.get(user, {}).items() if MECHANISMS.get(number) == mechanism), None)

    @property
    def users(self) -> Sequence[str]:
        """All users that have a credential."""
        return sorted(self._of_user)

    def infos(self, user: str) -> Sequence[tuple[int, int]]:
        """Mechanism and iterations of each credential of a user."""
        return sorted((number, found.iterations) for number, found in self._of_user.get(user, {}).items())

    def replay(self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> None:
        """Set or remove a credential."""
        of_user = self._of_user.setdefault(record.name, {})
        if isinstance(record, UserScramCredentialRecord):
            of_user[record.mechanism] = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
        else:
            of_user.pop(record.mechanism, None)
        if not of_user:
            del self._of_user[record.name]


class Upsertion(NamedTuple):
    """A credential that a client sets: it has salted and hashed the password."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


ScramRecord = UserScramCredentialRecord | RemoveUserScramCredentialRecord
Keys = Callable[[str, bytes], tuple[bytes, bytes]]
"""From a mechanism's name and a salted password to StoredKey and ServerKey."""


def alter_scram(
    credentials: ScramCredentials, deletions: Sequence[tuple[str, int]], upsertions: Sequence[Upsertion], keys: Keys
) -> tuple[Mapping[str, ApiError | None], list[ScramRecord]]:
    """The result of each user, in the order of the request, and the records of those that may change."""
    named = Counter([name for name, _ in deletions] + [each.name for each in upsertions])
    results: dict[str, ApiError | None] = {}
    records: list[ScramRecord] = []
    for name, mechanism in deletions:
        problem = _problem(name, mechanism, named) or (
            None
            if any(number == mechanism for number, _ in credentials.infos(name))
            else ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        )
        results[name] = problem
        if problem is None:
            records.append(RemoveUserScramCredentialRecord(name=name, mechanism=mechanism))
    for each in upsertions:
        problem = _problem(each.name, each.mechanism, named) or _iterations_problem(each.iterations)
        results[each.name] = problem
        if problem is None:
            stored_key, server_key = keys(MECHANISMS[each.mechanism], each.salted_password)
            records.append(
                UserScramCredentialRecord(
                    name=each.name,
                    mechanism=each.mechanism,
                    salt=each.salt,
                    stored_key=stored_key,
                    server_key=server_key,
                    iterations=each.iterations,
                )
            )
    return results, records


def _problem(name: str, mechanism: int, named: Mapping[str, int]) -> ApiError | None:
    if not name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if named[name] > 1:
        return ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    if mechanism not in MECHANISMS:
        return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _iterations_problem(iterations: int) -> ApiError | None:
    if iterations > ITERATIONS_MAX:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if iterations < ITERATIONS_MIN:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    return None


def described_scram(
    credentials: ScramCredentials, names: Sequence[str] | None
) -> Iterator[tuple[str, ApiError | None, Sequence[tuple[int, int]]]]:
    """Each user that a client names, all without names: its error, or mechanism and iterations of its credentials."""
    counts = Counter(names or credentials.users)
    for name, count in counts.items():
        infos = credentials.infos(name)
        if count > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            yield name, ApiError(ErrorCode.DUPLICATE_RESOURCE, message), ()
        elif not infos:
            message = f"Attempt to describe a user credential that does not exist: {name}"
            yield name, ApiError(ErrorCode.RESOURCE_NOT_FOUND, message), ()
        else:
            yield name, None, infos
