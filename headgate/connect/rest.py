"""Servers that are reached by HTTP: where they are, who asks, and how long to go on asking.

One rule: what is sent here may be sent again. So whatever leaves it open whether a request was done, a lost connection
or a server that is busy, is answered by sending the request again, until a deadline.
"""

import base64
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from headgate.connect.plain import warn_if_plain
from headgate.errors import ExternalError, InvalidOption

OPEN_SECONDS = 6.0
"""How long to go on asking a server that a job needs at its start."""
REQUEST_SECONDS = 30.0
"""How long one request may take, before it is sent again."""
CONNECT_SECONDS = 3.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
REASON_MAX = 400

BUSY = frozenset({408, 429, 500, 502, 503, 504})
"""The answers that may be others a moment later."""


@dataclass(frozen=True)
class Endpoint:
    """The addresses of a server or of the nodes of a cluster, and what it takes to be let in."""

    urls: tuple[str, ...]
    authorization: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return ", ".join(self.urls)


@dataclass(frozen=True)
class Answer:
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


def endpoint(
    url: str | Sequence[str],
    *,
    user: str | None,
    password: str | None,
    api_key: str | None = None,
    ca: str | None,
    certificate: str | None,
    key: str | None,
) -> Endpoint:
    """Check the options of a connection, and put them together."""
    given = tuple(url) if isinstance(url, (list, tuple)) else (url,)
    urls = tuple(_address(each) for each in given)
    if not urls:
        raise InvalidOption('no url is given: write url="https://host:port"')
    if (user is None) != (password is None):
        raise InvalidOption("user and password go together: give both, or neither")
    if user is not None and api_key is not None:
        raise InvalidOption("user and api_key are two ways to be let in: give one of them")
    if key is not None and certificate is None:
        raise InvalidOption("key is given without certificate: give both")
    plain = [each for each in urls if each.startswith("http:")]
    if plain and (ca or certificate):
        raise InvalidOption(f"{plain[0]} has no TLS, and ca or certificate is given: write https://")
    authorization = None
    if user is not None:
        authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    elif api_key is not None:
        authorization = f"ApiKey {api_key}"
    return Endpoint(urls, authorization, ca, certificate, key)


def warn_of_login(who: str, place: Endpoint) -> None:
    """Warn if the login goes over a network in the clear."""
    if place.authorization is not None:
        plain = [url for url in place.urls if url.startswith("http:")]
        warn_if_plain(who, plain, what="the login goes", remedy="write https://")


def error_text(error: Mapping[str, Any]) -> str:
    """The type and the reason of an error that a search server describes, and of what is behind it."""
    text = f"{error.get('type')}: {error.get('reason')}"
    cause = error.get("caused_by")
    return f"{text}: {cause.get('reason')}" if isinstance(cause, Mapping) and cause.get("reason") else text


def shortened(text: str) -> str:
    """The text as one line that is not too long for a message."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_MAX else f"{line[:REASON_MAX]}…"


class RetryPolicy:
    """How long to go on trying one thing: with pauses that double, until a deadline."""

    def __init__(self, seconds: float, what: str) -> None:
        self._what = what
        self._started = time.monotonic()
        self._deadline = self._started + seconds
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        return self._deadline - time.monotonic()

    def rest(self, reason: str) -> None:
        """Pause before the next try. ``ExternalError`` with the reason if the deadline would be over then."""
        if self.left <= self._pause:
            tried = time.monotonic() - self._started
            raise ExternalError(
                f"{self._what}: {reason}: tried for {tried:.0f} s: see that the server runs and can keep up"
            )
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


class Client:
    """Connections of one thread to an endpoint. A context manager."""

    def __init__(self, place: Endpoint) -> None:
        self._http = _urllib3()
        self._place = place
        self._node = 0
        self._pool = self._http.PoolManager(num_pools=len(place.urls), maxsize=1, ssl_context=_trust(place))

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
        patience: RetryPolicy,
        body: bytes | memoryview | None = None,
        kind: str = "application/json",
    ) -> Answer:
        """Send the request, to another node each time, until a server answers that is not busy.

        ``UserError`` if nobody is let in like this, or there is no trust; ``ExternalError`` after the deadline.
        """
        headers = {"Accept": "application/json", "Content-Type": kind}
        if self._place.authorization is not None:
            headers["Authorization"] = self._place.authorization
        told = ""
        while True:
            url = self._place.urls[self._node % len(self._place.urls)]
            seconds = max(0.1, min(patience.left, REQUEST_SECONDS))
            timeout = self._http.Timeout(connect=min(seconds, CONNECT_SECONDS), read=seconds)
            try:
                response = self._pool.request(
                    method, url + path, body=body, headers=headers, timeout=timeout, retries=False, redirect=False
                )
            except self._http.exceptions.HTTPError as error:
                _refuse_distrust(url, error)
                # The last try may have had too little time: what a server said before says more.
                silent = told and isinstance(error, self._http.exceptions.TimeoutError)
                reason = told if silent else f"{url} does not answer: {_innermost(error)}"
            else:
                answer = Answer(response.status, response.data)
                if answer.status in {401, 403}:
                    raise InvalidOption(
                        f"{url} does not let us in: {answer.reason}: see that user and password are right, "
                        "and that the user may read and write there"
                    )
                if answer.status not in BUSY:
                    return answer
                reason = told = f"{url} is busy: {answer.reason}"
            self._node += 1
            patience.rest(reason)


def _address(url: object) -> str:
    """A URL as it was written, without a slash at the end."""
    example = 'write url="https://host:port"'
    if not isinstance(url, str):
        raise InvalidOption(f"url={url!r} is not a text: {example}")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise InvalidOption(f"url={url!r} is not a valid address: {example}") from None
    if "@" in parts.netloc:
        raise InvalidOption(f"the url of {parts.hostname} has a user in it: give user and password as options")
    if not usable or parts.query or parts.fragment:
        raise InvalidOption(f"url={url!r} is not a valid address of a server: {example}")
    return url.rstrip("/")


def _urllib3() -> ModuleType:
    try:
        import urllib3  # noqa: PLC0415 - only who uses these sinks needs it
    except ImportError:
        raise InvalidOption("sinks over HTTP need urllib3: pip install 'headgate[search,hbase]'") from None
    return urllib3


def _trust(place: Endpoint) -> ssl.SSLContext | None:
    """What the client trusts and shows. None if no address has TLS."""
    if not any(url.startswith("https:") for url in place.urls):
        return None
    try:
        context = ssl.create_default_context(cafile=place.ca)
    except OSError as error:
        raise InvalidOption(f"ca={place.ca!r} cannot be read: {error}: give a file of PEM certificates") from error
    if place.certificate is not None:
        try:
            context.load_cert_chain(place.certificate, place.key)
        except OSError as error:
            raise InvalidOption(f"certificate={place.certificate!r} cannot be used with its key: {error}") from error
    return context


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
