"""Who may ask, and for what.

One rule: nobody without the token gets an answer from the API, and whoever has the one for reading changes nothing.
Tokens are compared in constant time. A request by a name that is not ours is refused whatever it carries: so a page of
somebody else's, whose name was made to point here, learns nothing (DNS rebinding).
"""

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from enum import Enum

TOKEN_BYTES = 16
METRICS = "/metrics"
"""Where a Prometheus reads."""


class Right(Enum):
    """What a token allows."""

    COMMAND = "command"
    READ = "read"


@dataclass(frozen=True)
class ServerAccess:
    """The tokens of one server, and the names by which it may be called."""

    token: str = field(default_factory=lambda: secrets.token_hex(TOKEN_BYTES), repr=False)
    read_token: str | None = field(default_factory=lambda: secrets.token_hex(TOKEN_BYTES), repr=False)
    names: frozenset[str] = frozenset({"localhost"})
    """Names, in small letters."""
    loopback_only: bool = True
    """Of addresses only those of the loopback."""
    metrics_alone: bool = False
    """Nothing but metrics, and those to whoever asks."""

    def right_of(self, authorization: bytes | None) -> Right | None:
        """What a header allows. None without a token, or with another."""
        scheme, _, given = (authorization or b"").partition(b" ")
        given = given.strip() if scheme.lower() == b"bearer" else b""
        # Both are always compared, so that nobody can tell by the time which of them was nearly right.
        may_command = _same(given, self.token)
        may_read = _same(given, self.read_token or "")
        return Right.COMMAND if may_command else Right.READ if may_read else None

    def is_ours(self, host: bytes | None) -> bool:
        """Whether a ``Host`` is a name of this server. The port does not matter: it may be forwarded."""
        name = _name(host)
        if name is None:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return address.is_loopback or not self.loopback_only


def access_for(host: str, token: str, read_token: str | None) -> ServerAccess:
    """For a server that listens at ``host``."""
    names = {"localhost"}
    loopback = is_loopback(host)
    if not loopback:
        names |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    return ServerAccess(token, read_token, frozenset(names), loopback)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _same(given: bytes, token: str) -> bool:
    return bool(token) and hmac.compare_digest(given, token.encode())


def _name(host: bytes | None) -> str | None:
    """The name in a ``Host``, in small letters: before the port, or within brackets."""
    if not host:
        return None
    try:
        text = host.decode("ascii").lower()
    except UnicodeDecodeError:
        return None
    if text.startswith("["):
        inside, bracket, rest = text[1:].partition("]")
        return inside if bracket and (not rest or _is_port(rest)) else None
    name, colon, _ = text.partition(":")
    return name.rstrip(".") if not colon or _is_port(text[len(name) :]) else None


def _is_port(text: str) -> bool:
    return text.startswith(":") and text[1:].isdecimal()
