"""Where a server is, and who asks.

One rule: the password is shown nowhere.
"""

from dataclasses import dataclass, field

from headgate.connect.plain import warn_if_plain


@dataclass(frozen=True)
class Address:
    """A database of a server. All checked by ``build``."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    ssl_verify_identity: bool = True

    def warn_if_plain(self, who: str) -> None:
        """Warn if what is said to the server goes over a network in the clear."""
        if self.ssl_ca is None:
            warn_if_plain(who, [f"{self.host}:{self.port}"], what="rows go", remedy="give ssl_ca, for TLS")

    def __str__(self) -> str:
        """For messages."""
        return f"{self.user}@{self.host}:{self.port}/{self.database}"
