"""Where servers are that are reached by HTTP, and what it takes to be let in.

One rule: what is not valid is refused before anybody is asked, and no password is shown.
"""

import base64
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headgate.connect.plain import warn_if_plain
from headgate.errors import InvalidOption


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

    def tls(self) -> ssl.SSLContext | None:
        """What the client trusts and shows. None if no address has TLS."""
        if not any(url.startswith("https:") for url in self.urls):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise InvalidOption(f"ca={self.ca!r} cannot be read: {error}: give a file of PEM certificates") from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except OSError as error:
                raise InvalidOption(f"certificate={self.certificate!r} cannot be used with its key: {error}") from error
        return context


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
        raise InvalidOption("user and api_key cannot be combined: give only one of them")
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
