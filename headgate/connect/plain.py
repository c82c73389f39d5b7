"""Logins and rows that go over a network in the clear.

One rule: who can read along is named once, when a job opens its source or sink; on this machine nobody can.
"""

import ipaddress
import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

logger = logging.getLogger("headgate")


def warn_if_plain(who: str, places: Iterable[str], *, what: str, remedy: str) -> None:
    """Warn of the first of these places that is not on this machine. A place is a host, ``host:port`` or a URL."""
    far = next((place for place in places if not is_here(place)), None)
    if far is not None:
        logger.warning("%s: %s to %s unencrypted, for all on the way to read: %s", who, what, far, remedy)


def is_here(place: str) -> bool:
    """Whether a place is this machine, by the loopback address or a Unix socket."""
    if place.startswith(("/", "@")):
        return True
    host = urlsplit(place if "://" in place else f"//{place}").hostname or ""
    if host in ("", "localhost") or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
