"""Which metrics a query of Prometheus names, and with which labels. As much of the language as ours are written in."""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*")|(?P<name>[A-Za-z_:$][A-Za-z0-9_:]*)|(?P<number>\d+(?:\.\d+)?(?:e\d+)?[smhdwy]?)"""
    r"""|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){}\[\],])|(?P<space>\s+)"""
)
GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
WORDS = {"and", "or", "unless", "offset", "bool", *GROUPING}
FUNCTIONS = {
    *("abs", "absent", "avg", "count", "delta", "deriv", "histogram_quantile", "increase", "label_values", "max"),
    *("max_over_time", "min", "rate", "sum", "time"),
}
CLOSING = {"(": ")", "{": "}", "[": "]"}


@dataclass
class Query:
    """What a query names."""

    matched: dict[str, set[str]] = field(default_factory=dict)
    """For each metric, the labels by which its samples are chosen."""
    grouped: set[str] = field(default_factory=set)
    """Labels of ``by``, ``on`` and their like."""


class BadQuery(Exception):
    """It cannot be read."""


def tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            raise BadQuery(f"{text!r}: {text[at:]!r} is nothing")
        at = token.end()
        if token["space"] is None:
            found.append(token[0])
    return found


def read(text: str) -> Query:
    """What a query names. ``BadQuery`` if brackets do not match, or a function or a word is unknown."""
    query, opened, parts = Query(), [], tokens(text)
    at = 0
    while at < len(parts):
        part, after = parts[at], parts[at + 1] if at + 1 < len(parts) else ""
        at += 1
        if part in CLOSING:
            opened.append(part)
        elif part in CLOSING.values():
            if not opened or CLOSING[opened.pop()] != part:
                raise BadQuery(f"{text!r}: {part} closes nothing")
        elif opened and opened[-1] == "[":
            continue  # A span of time.
        elif part in GROUPING:
            if after != "(":
                raise BadQuery(f"{text!r}: {part} needs labels")
            end = parts.index(")", at)
            query.grouped |= {label for label in parts[at + 1 : end] if label != ","}
            at = end + 1
        elif re.match(r"[A-Za-z_:]", part) and part not in WORDS:
            if after in ("(", "by", "without"):
                if part not in FUNCTIONS:
                    raise BadQuery(f"{text!r}: {part} is no function that is known here")
                if part == "label_values":
                    query.grouped.add(parts[parts.index(",", at) + 1])
                    parts[parts.index(",", at) : -1] = []
                continue
            labels = query.matched.setdefault(part, set())
            if after == "{":
                end = parts.index("}", at)
                labels |= {
                    label for label, sign in zip(parts[at:end], parts[at + 1 : end], strict=False) if sign in MATCHERS
                }
                at = end + 1
    if opened:
        raise BadQuery(f"{text!r}: {opened[-1]} is not closed")
    return query


MATCHERS = {"=", "!=", "=~", "!~"}
