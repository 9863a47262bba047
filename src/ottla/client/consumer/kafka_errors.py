"""`KafkaError` and `KafkaException`, as confluent-kafka has them: an error is a value with a code, and the argument of the exception."""

from typing import Any, TypeAlias

from ottla.client.consumer.error_codes import CODES

Text: TypeAlias = str
"""`str` is a method of `KafkaError`."""


class _Codes(type):
    """Gives `KafkaError` its codes as attributes: `KafkaError._PARTITION_EOF`, `KafkaError.UNKNOWN_MEMBER_ID`."""

    def __getattr__(cls, name: str) -> int:
        if name in _BY_NAME:
            return _BY_NAME[name]
        raise AttributeError(f"KafkaError has no code {name}")

    def __dir__(cls) -> list[str]:
        return [*super().__dir__(), *_BY_NAME]


class KafkaError(metaclass=_Codes):
    """An error or an event. `reason` replaces the text of the code."""

    def __init__(
        self,
        error: int,
        reason: Text | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = int(error)
        self._reason = reason
        self._is_fatal = fatal
        self._is_retriable = retriable
        self._requires_abort = txn_requires_abort

    def code(self) -> int:
        """The code: Kafka's, or negative for one of the client."""
        return self._code

    def name(self) -> Text:
        """The code's name."""
        return CODES[self._code][0] if self._code in CODES else f"ERR_{self._code}?"

    def str(self) -> Text:
        """The text."""
        if self._reason is not None:
            return self._reason
        return CODES[self._code][1] if self._code in CODES else f"Err-{self._code}?"

    def fatal(self) -> bool:
        """Whether the consumer cannot be used any more."""
        return self._is_fatal

    def retriable(self) -> bool:
        """Whether a transactional call may be repeated: never, for a consumer, as in confluent-kafka."""
        return self._is_retriable

    def txn_requires_abort(self) -> bool:
        """Whether a transaction has to be aborted: never, for a consumer."""
        return self._requires_abort

    def __eq__(self, other: object) -> bool:
        return bool(self._code == _code_of(other))

    def __hash__(self) -> int:
        return hash(self._code)

    def __lt__(self, other: Any) -> bool:
        return bool(self._code < _code_of(other))

    def __repr__(self) -> Text:
        fatal = "FATAL," if self._is_fatal else ""
        return f'KafkaError{{{fatal}code={self.name()},val={self._code},str="{self.str()}"}}'

    __str__ = __repr__


class KafkaException(Exception):
    """Raised by calls; the first argument is a KafkaError."""


class WakeupException(KafkaException):
    """`Consumer.wakeup` was called (Java's exception of this name)."""

    def __init__(self) -> None:
        super().__init__(KafkaError(KafkaError._INTR, "the consumer was woken up"))


class ConsumeError(KafkaException):
    """A message cannot be handed out as it is: `kafka_message`. `exception`: why."""

    def __init__(self, kafka_error: KafkaError, exception: Exception | None = None, kafka_message: Any = None) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        """The code of the KafkaError."""
        return self.args[0].code()  # type: ignore[no-any-return]

    @property
    def name(self) -> Text:
        """The code's name."""
        return self.args[0].name()  # type: ignore[no-any-return]


class KeyDeserializationError(ConsumeError):
    """`key.deserializer` raised `exception`."""


class ValueDeserializationError(ConsumeError):
    """`value.deserializer` raised `exception`."""


_BY_NAME = {name: code for code, (name, _) in CODES.items()}


def _code_of(other: Any) -> Any:
    """The code of an error of this client or of confluent-kafka; a number is one itself."""
    code = getattr(other, "code", None)
    return code() if callable(code) else other


def exception(code: int, reason: Text | None = None, *, fatal: bool = False) -> KafkaException:
    """The exception for a code; `reason` comes before the code's text, as librdkafka's texts have it."""
    text = CODES[code][1] if code in CODES else f"Err-{code}?"
    return KafkaException(KafkaError(code, text if reason is None else f"{reason}: {text}", fatal=fatal))
