"""One call carried through: sent, sent again where that helps and cannot do harm, its answer read or its refusal raised.

Does no I/O: a generator that yields what to do next (``Send``, ``Wait``) and is sent what came of it (``Answer``, ``Lost``), so that the
client and its asynchronous twin are one.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_connect.client.calls import Answer, Call
from airflow_provider_connect.client.refusals import ServerException, UnreachableException, is_passing, refusal

T = TypeVar("T")

_LEAST_REFUSAL = 300
_REMOVED = 404


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """``seconds`` from the first attempt on in which another one may begin; 0: there is but one.

    The waits between attempts double from the first to the longest, each shortened by up to a half at random, so that many clients do
    not come back together.
    """

    seconds: float = 30.0
    first_wait_seconds: float = 0.25
    longest_wait_seconds: float = 4.0

    def wait(self, attempt: int, random: float) -> float:
        """Seconds to wait after attempt number ``attempt``, counted from 0; ``random`` is from 0 to 1."""
        longest = min(self.first_wait_seconds * 2.0 ** min(attempt, 30), self.longest_wait_seconds)
        return longest * (1 - random / 2)


@dataclass(frozen=True, slots=True)
class Send:
    """Send the call's request."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let this time pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer. ``was_sent``: the server may have carried the request out."""

    reason: str
    was_sent: bool


Conversation = Generator[Send | Wait, Answer | Lost | None, T]


def conversation(call: Call[T], server: str, limits: RetryLimits, now: Callable[[], float], random: Callable[[], float]) -> Conversation[T]:
    """``call`` carried through on the ``server`` of this base URL; ``now`` in seconds.

    Raises UnreachableException when no answer came in time, else what ``refusal`` makes of the answer.
    """
    request = f"{call.verb.method} {server}{call.path}"
    started, attempt, was_lost = now(), 0, False
    while True:
        came = yield Send()
        if isinstance(came, Answer) and not _is_refusal(call, came):
            return _read(call, came, request)
        if was_lost and isinstance(came, Answer) and call.verb.removes and came.status == _REMOVED:
            return call.read(Answer(204))
        wait = limits.wait(attempt, random())
        may_repeat = (
            is_passing(came) if isinstance(came, Answer) else isinstance(came, Lost) and (call.verb.is_repeatable or not came.was_sent)
        )
        if not may_repeat or now() + wait - started > limits.seconds:
            raise refusal(came, request) if isinstance(came, Answer) else _unreachable(came, request, attempt + 1)
        was_lost = was_lost or (isinstance(came, Lost) and came.was_sent)
        attempt += 1
        yield Wait(wait)


def _is_refusal(call: Call[T], answer: Answer) -> bool:
    return answer.status >= _LEAST_REFUSAL and not (answer.status in call.verb.also and isinstance(answer.body, dict))


def _read(call: Call[T], answer: Answer, request: str) -> T:
    try:
        return call.read(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServerException(
            f"{request} answers {answer.status}, but not as Kafka Connect does ({type(error).__name__}: {error}): is this its address?",
            answer.status,
        ) from error


def _unreachable(came: Lost | None, request: str, attempts: int) -> UnreachableException:
    reason = came.reason if came is not None else "nothing was sent"
    times = "once" if attempts == 1 else f"{attempts} times"
    unclear = " Whether the server carried it out is not known." if came is not None and came.was_sent else ""
    return UnreachableException(f"{request} has no answer, tried {times}: {reason}.{unclear} Check the address, and that the server runs")
