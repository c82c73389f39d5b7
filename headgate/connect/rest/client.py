"""Requests to servers that are reached by HTTP, and how long to go on asking.

One rule: what is sent here may be sent again. So whatever leaves it open whether a request was done, a lost connection
or a server that is busy, is answered by sending the request again, until a deadline.
"""

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Self

from headgate.connect.rest.endpoint import Endpoint
from headgate.errors import ExternalError, InvalidOption
from headgate.retry import Retry, RetryPolicy

OPEN_SECONDS = 6.0
"""How long to go on asking a server that a job needs at its start."""
REQUEST_SECONDS = 30.0
"""How long one request may take, before it is sent again."""
CONNECT_SECONDS = 3.0
PAUSES = RetryPolicy(first_s=0.05, longest_s=2.0)
READ_BYTES = 1 << 16
REASON_MAX = 400

BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""The answers that may be others a moment later."""


@dataclass(frozen=True)
class Response:
    """What a server answered."""

    status: int
    body: bytes

    @property
    def reason(self) -> str:
        """One line that says what is wrong: of the JSON of a search server, or of the text of a stack trace."""
        text = self.body.decode(errors="replace")
        try:
            error = json.loads(text).get("error")
        except (ValueError, AttributeError):
            error = None
        if isinstance(error, Mapping):
            text = error_text(error)
        elif isinstance(error, str):
            text = error
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("\tat ")]
        return shortened(": ".join([str(self.status), *lines[:2]]))


def error_text(error: Mapping[str, Any]) -> str:
    """The type and the reason of an error that a search server describes, and of what is behind it."""
    text = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    return f"{text}: {cause.get('reason')}" if isinstance(cause, Mapping) and cause.get("reason") else text


def shortened(text: str) -> str:
    """The text as one line that is not too long for a message."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_MAX else f"{line[:REASON_MAX]}…"


class Asking(Retry):
    """What is asked until it is done, by one request after the other, for at most ``seconds``."""

    def __init__(self, seconds: float, what: str) -> None:
        """``what`` begins the error: who cannot do what."""
        super().__init__(PAUSES.within(seconds))
        self._what = what

    def again_or_raise(self, reason: str) -> None:
        """Pause before the next request. ``ExternalError`` with the reason if the deadline would be over then."""
        if not self.again():
            raise ExternalError(
                f"{self._what}: {reason}: tried for {self.tried_s:.0f} s: see that the server runs and can keep up"
            )


class RestClient:
    """Connections of one thread to an endpoint. A context manager."""

    def __init__(self, place: Endpoint) -> None:
        self._http = _urllib3()
        self._place = place
        self._node = 0
        self._pool = self._http.PoolManager(num_pools=len(place.urls), maxsize=1, ssl_context=place.tls())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.clear()

    def ask(
        self,
        method: str,
        path: str,
        *,
        asking: Asking,
        body: bytes | memoryview | None = None,
        kind: str = "application/json",
    ) -> Response:
        """Send the request, to another node each time, until a server answers that is not busy.

        ``UserError`` if nobody is let in like this, or there is no trust; ``ExternalError`` after the deadline.
        """
        headers = {"Accept": "application/json", "Content-Type": kind}
        if self._place.authorization is not None:
            headers["Authorization"] = self._place.authorization
        told = ""
        while True:
            url = self._place.urls[self._node % len(self._place.urls)]
            seconds = max(0.1, min(asking.left_s, REQUEST_SECONDS))
            try:
                answer = self._answer(method, url + path, body, headers, seconds)
            except (self._http.exceptions.HTTPError, TimeoutError) as error:
                _refuse_distrust(url, error)
                # The last try may have had too little time: what a server said before says more.
                silent = told and isinstance(error, (self._http.exceptions.TimeoutError, TimeoutError))
                reason = told if silent else f"{url} does not answer: {_innermost(error)}"
            else:
                if answer.status in {401, 403}:
                    raise InvalidOption(
                        f"{url} refused access: {answer.reason}: check user and password, "
                        "and that the user may read and write there"
                    )
                if answer.status not in BUSY:
                    return answer
                reason = told = f"{url} is busy: {answer.reason}"
            self._node += 1
            asking.again_or_raise(reason)

    def _answer(
        self, method: str, url: str, body: bytes | memoryview | None, headers: Mapping[str, str], seconds: float
    ) -> Response:
        """Ask once. urllib3 limits each wait for more of an answer, and not all of them together: that is done here."""
        deadline = time.monotonic() + seconds
        response = self._pool.request(
            method,
            url,
            body=body,
            headers=headers,
            timeout=self._http.Timeout(connect=min(seconds, CONNECT_SECONDS), read=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            answer = Response(response.status, b"".join(_parts(response, deadline)))
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return answer


def _urllib3() -> ModuleType:
    try:
        import urllib3  # noqa: PLC0415 - only who uses these sinks needs it
    except ImportError:
        raise InvalidOption("sinks over HTTP need urllib3: pip install 'headgate[search,hbase]'") from None
    return urllib3


def _parts(response: Any, deadline: float) -> Iterator[bytes]:
    """An answer as it comes. ``TimeoutError`` if it goes on past the deadline."""
    while part := response.read1(READ_BYTES):
        if time.monotonic() > deadline:
            raise TimeoutError("the answer came too slowly")
        yield part


def _refuse_distrust(url: str, error: Exception) -> None:
    """Raise if no other try can end better: the certificate is not trusted, or there is no TLS at all."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise InvalidOption(
                f"the certificate of {url} is not trusted: {cause.verify_message}: give its authority as ca="
            ) from error
        if isinstance(cause, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(cause):
            raise InvalidOption(f"{url} does not speak TLS: write http://") from error
        cause = _behind(cause)


def _innermost(error: BaseException) -> str:
    """What the system said, without the words around it."""
    while (cause := _behind(error)) is not None:
        error = cause
    return shortened(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def _behind(error: BaseException) -> BaseException | None:
    """The error that an error was made of. Those of urllib3 may carry it as an argument."""
    given = next((each for each in reversed(error.args) if isinstance(each, BaseException)), None)
    return given or error.__cause__ or error.__context__
