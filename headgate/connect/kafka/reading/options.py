"""The options of a Kafka client, for the two clients that a source has.

One rule: a user writes one set of options, as librdkafka names them, for sources and sinks alike. Spark reads with
Java's client, which is told the same in its own words; the driver asks its questions through librdkafka.
"""

from collections.abc import Mapping
from pathlib import Path

from headgate.connect.kafka.security import Sasl, Security, Tls, security
from headgate.errors import InvalidOption

Option = str | int | float | bool

OWNED = {
    "bootstrap.servers": "servers=",
    "metadata.broker.list": "servers=",
    "group.id": "group=",
    "isolation.level": "isolation_level=",
    "auto.offset.reset": "starting_offsets=",
    "enable.auto.commit": "nothing: offsets are in the checkpoint",
    "key.deserializer": "nothing: keys are binary",
    "value.deserializer": "nothing: values are binary",
    "interceptor.classes": "nothing: Spark refuses them",
}
"""What is said elsewhere, and where."""
JAVAS = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.": "ssl.ca.location",
    "ssl.keystore.": "ssl.certificate.location and ssl.key.location",
}
"""How Java's client says what librdkafka says otherwise."""
_SECURITY = ("security.", "sasl.", "ssl.", "enable.ssl.")
_LOGIN_MODULES = "org.apache.kafka.common.security"


def checked(options: Mapping[str, Option] | None) -> dict[str, str]:
    """The options as text, if they can hold."""
    found: dict[str, str] = {}
    for name, value in (options or {}).items():
        if not isinstance(value, str | int | float):
            raise InvalidOption(f"kafka: option {name!r} must be text or a number, got {type(value).__name__}")
        if name in OWNED:
            raise InvalidOption(f"kafka: option {name!r} is not for options: use {OWNED[name]}")
        for beginning, instead in JAVAS.items():
            if name.startswith(beginning):
                raise InvalidOption(f"kafka: option {name!r} is of Java's client alone: write {instead}")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    safe = security(found)
    if safe.tls is not None and not safe.tls.verify:
        raise InvalidOption(
            "kafka: Java's client cannot leave out enable.ssl.certificate.verification: give ssl.ca.location"
        )
    return found


def for_librdkafka(options: Mapping[str, str]) -> dict[str, str]:
    """What a client on the driver needs to be let in. The rest is for those who read."""
    return {name: value for name, value in options.items() if name.startswith(_SECURITY)}


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    """The same for Java's client. Files are read here, so that executors elsewhere need not have them."""
    others = {name: value for name, value in options.items() if not name.startswith(_SECURITY)}
    return {**others, **_safe(security(options))}


def _safe(found: Security) -> dict[str, str]:
    settings = {"security.protocol": found.protocol}
    if found.sasl is not None:
        settings |= {"sasl.mechanism": found.sasl.mechanism, "sasl.jaas.config": _login(found.sasl)}
    if found.tls is not None:
        settings |= _tls(found.tls)
    return settings


def _login(sasl: Sasl) -> str:
    module = "plain.PlainLoginModule" if sasl.mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f"{_LOGIN_MODULES}.{module} required username={_quoted(sasl.username)} password={_quoted(sasl.password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tls(tls: Tls) -> dict[str, str]:
    settings = {"ssl.endpoint.identification.algorithm": "https" if tls.check_name else ""}
    if tls.ca is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(tls.ca, "ssl.ca.location")}
    if tls.certificate is not None:
        key = _pem(tls.key or tls.certificate, "ssl.key.location")
        if "PRIVATE KEY-----" not in key or "-----BEGIN RSA" in key or "-----BEGIN EC" in key:
            raise InvalidOption(
                f"kafka: {tls.key or tls.certificate} is not a key that Java's client reads: write it anew with "
                "`openssl pkcs8 -topk8`"
            )
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _pem(tls.certificate, "ssl.certificate.location"),
            "ssl.keystore.key": key,
        }
        if tls.key_password:
            settings["ssl.key.password"] = tls.key_password
    return settings


def _pem(path: str, name: str) -> str:
    try:
        if Path(path).is_dir():
            return "\n".join(each.read_text(encoding="utf-8") for each in sorted(Path(path).glob("*.pem")))
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text"
        raise InvalidOption(f"kafka: cannot use {name} {path}: {reason}") from error
