"""How a connection is kept safe, from the options that librdkafka takes.

One rule: what this client cannot do is refused when it is built; nothing about security is passed over in silence.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.connect.plain import warn_if_plain
from headgate.errors import InvalidOption

PROTOCOLS = {  # name: (TLS, SASL)
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KNOWN = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


@dataclass(frozen=True)
class Tls:
    """What a TLS connection is made with."""

    ca: str | None
    """A file or directory of certificates to trust; the system's if there is none."""
    certificate: str | None
    key: str | None
    key_password: str | None = field(repr=False)
    verify: bool
    check_name: bool

    def context(self) -> ssl.SSLContext:
        """Read the files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.verify and self.check_name
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        if self.verify:
            self._trust(context)
        if self.certificate is not None:
            try:
                # Without any password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.certificate, self.key, self.key_password or "")
            except (OSError, ValueError) as error:
                raise InvalidOption(
                    f"kafka: cannot use {self.certificate} with its key: {_reason(error)}: "
                    "check ssl.certificate.location, ssl.key.location and ssl.key.password"
                ) from error
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        if self.ca is None:
            context.load_default_certs()
            return
        try:
            if Path(self.ca).is_dir():
                context.load_verify_locations(capath=self.ca)
            else:
                context.load_verify_locations(cafile=self.ca)
        except OSError as error:
            raise InvalidOption(f"kafka: cannot use ssl.ca.location {self.ca}: {_reason(error)}") from error


@dataclass(frozen=True)
class Sasl:
    """Who logs in, and how."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Security:
    """TLS, login, both or neither."""

    protocol: str
    tls: Tls | None
    sasl: Sasl | None


def warn_of_login(who: str, servers: str, options: Mapping[str, str]) -> None:
    """Warn if a password goes over a network in the clear. SCRAM proves it without sending it."""
    found = security(options)
    if found.tls is None and found.sasl is not None and found.sasl.mechanism == "PLAIN":
        warn_if_plain(who, servers.split(","), what="the password goes", remedy="use security.protocol=SASL_SSL")


def security(options: Mapping[str, str]) -> Security:
    """Read the options that are about security. Others are left alone."""
    protocol = options.get("security.protocol", "plaintext").upper()
    if protocol not in PROTOCOLS:
        raise InvalidOption(f"kafka: security.protocol {protocol} is unknown: choose {', '.join(PROTOCOLS)}")
    with_tls, with_sasl = PROTOCOLS[protocol]
    for name in options:
        if name.startswith(("ssl.", "sasl.")) and name not in KNOWN:
            raise InvalidOption(f"kafka: option {name} is not supported: use {', '.join(sorted(KNOWN))}")
    return Security(protocol, _tls(options) if with_tls else None, _sasl(options) if with_sasl else None)


def _tls(options: Mapping[str, str]) -> Tls:
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "none", ""):
        raise InvalidOption(
            f"kafka: ssl.endpoint.identification.algorithm {algorithm!r} is unknown: choose https or none"
        )
    verification = str(options.get("enable.ssl.certificate.verification", "true")).lower()
    if verification not in TRUTH:
        raise InvalidOption(f"kafka: enable.ssl.certificate.verification must be true or false, got {verification!r}")
    key = options.get("ssl.key.location") or None
    certificate = options.get("ssl.certificate.location") or None
    if key is not None and certificate is None:
        raise InvalidOption("kafka: ssl.key.location needs ssl.certificate.location beside it")
    return Tls(
        ca=options.get("ssl.ca.location") or None,
        certificate=certificate,
        key=key,
        key_password=options.get("ssl.key.password"),
        verify=TRUTH[verification],
        check_name=algorithm == "https",
    )


def _sasl(options: Mapping[str, str]) -> Sasl:
    given = options.get("sasl.mechanism") or options.get("sasl.mechanisms")
    if given is None:
        raise InvalidOption(f"kafka: sasl.mechanism is missing: choose {', '.join(MECHANISMS)}")
    mechanism = given.upper()
    if mechanism not in MECHANISMS:
        raise InvalidOption(f"kafka: sasl.mechanism {given} is not supported: choose {', '.join(MECHANISMS)}")
    username, password = options.get("sasl.username"), options.get("sasl.password")
    if not username or not password:
        raise InvalidOption(f"kafka: {mechanism} needs sasl.username and sasl.password")
    return Sasl(mechanism, username, password)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not a file of that kind"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
