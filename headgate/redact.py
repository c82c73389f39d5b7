"""What people are shown of addresses and messages that may carry a password.

One rule: what is shown was recognised. Of an address only the parts that are known to be a host, a port or a database
come through; where it cannot be told with certainty which part is the password, nothing but the kind of the address
does. So an ``@``, a ``/`` or a ``?`` inside of a password gives nothing away.

``shown`` takes an address. ``redact`` takes any text, and finds addresses and settings in it; every error of Headgate
and all that a job tells goes through it.
"""

import re

HIDDEN = "***"

_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(?:\\[\w$-]+)?(?::\d+)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_KIND = re.compile(r"(jdbc:[\w+.-]+:)((?:[\w+.-]+:)*)(.*)", re.DOTALL)
_PATH = re.compile(r"[\w$./%~-]*")
_ORACLE = re.compile(rf"(?://|tcps?://)?{_HOST}(?:[:/][\w$.:-]+)*")
_PARAMETERS = re.compile(r"(?:[\w.$-]+(?:=[^&;]*)?(?:[&;]|$))*")

_ADDRESS = re.compile(r"jdbc:[\w+.-]+:(?:\"[^\"]*\"|\([^\s'\"]*\)|[^\s'\"])+")
_LOGIN = re.compile(r"(?<=://)([^\s/:@'\"]*):([^\s'\"]*)@")
# A whole word is looked through once, and taken or passed over: whoever sends a long one holds nobody up.
_TELLING = (
    r"(?<![\w.-])(?=[\w.-]*?(?:password|passwd|passphrase|pwd|secret|token|credential|"
    r"(?:api|access|account|private|shared|encryption)[._-]?key))[\w.-]++"
)
_SETTING = re.compile(
    rf"({_TELLING})(\s*=\s*|[\"']\s*[:=,]\s*)(\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\{{[^}}]*\}}|[^\s&;,)\]}}'\"]+)",
    re.IGNORECASE,
)
_ENDS = ".,:;)]}"


def shown(address: str) -> str:
    """An address without user, password and parameters: a JDBC URL, or any other URI."""
    kind = _KIND.fullmatch(address)
    if kind is None:
        scheme, colon, rest = address.partition("://")
        return f"{scheme}://{_shown_host(rest) or HIDDEN}" if colon else HIDDEN
    database, variants, rest = kind[1], kind[2], kind[3]
    if database == "jdbc:oracle:":
        found = _shown_oracle(rest)
    elif rest.startswith("//"):
        host = _shown_host(rest[2:])
        found = None if host is None else f"//{host}"
    else:
        found = _shown_name(f"{variants}{rest}")
        variants = ""
    return f"{database}{variants}{found}" if found is not None else f"{database}{HIDDEN}"


def redact(text: str) -> str:
    """A text in which addresses are without logins, and the values of settings that are secret are left out."""
    if "jdbc:" in text:
        text = _ADDRESS.sub(_shown_within, text)
    if "=" in text or '"' in text or "'" in text:
        text = _SETTING.sub(_without_value, text)
    if "@" in text and "://" in text:
        text = _LOGIN.sub(_without_login, text)
    return text


def _shown_host(rest: str) -> str | None:
    """``user:password@host:port,host:port/database?parameters``, or with parameters after ``;``. None if in doubt."""
    head, parameters = _cut(rest)
    if not _PARAMETERS.fullmatch(parameters):
        return None
    authority, slash, path = head.partition("/")
    hosts = authority.rpartition("@")[2]
    if "@" in path or (hosts and not _HOSTS.fullmatch(hosts)):
        return None
    known = _PATH.match(path)
    return f"{hosts}{slash}{known[0] if known else ''}"


def _shown_oracle(rest: str) -> str | None:
    """``user/password@//host:port/service``. A description in brackets is left out. None if in doubt."""
    head, parameters = _cut(rest)
    login, at, place = head.rpartition("@")
    if not at or not _PARAMETERS.fullmatch(parameters):
        return None
    if "@" in parameters and not login:
        return None
    return f"@{place}" if _ORACLE.fullmatch(place) else f"@{HIDDEN}"


def _shown_name(rest: str) -> str | None:
    """A database without a host: ``mem:orders;USER=sa``. None if in doubt."""
    head, _ = _cut(rest)
    return head if "@" not in head and "=" not in head and "/" not in head.partition(":")[0] else None


def _cut(rest: str) -> tuple[str, str]:
    found = re.search(r"[?;]", rest)
    return (rest, "") if found is None else (rest[: found.start()], rest[found.end() :])


def _shown_within(match: "re.Match[str]") -> str:
    address = match[0].rstrip(_ENDS)
    return shown(address) + match[0][len(address) :]


def _without_value(match: "re.Match[str]") -> str:
    name, between, value = match.groups()
    quote = value[0] if value[0] in "'\"" else ""
    return f"{name}{between}{quote}{HIDDEN}{quote}"


def _without_login(match: "re.Match[str]") -> str:
    user, password = match.groups()
    return match[0] if password == "password" else f"{user}:{HIDDEN}@"  # noqa: S105 - an example in a message
