"""Columns as users write them: ``"user STRING, amount DOUBLE"``.

One rule: a type that Spark does not have is refused where it is written, before there is a Spark to ask. What is not
understood here is left to Spark, which reads the same text when the job is planned.
"""

import difflib
import re
from collections.abc import Iterator

from headgate.errors import InvalidOption

TYPES = frozenset(
    re.findall(
        r"\w+",
        """array bigint binary boolean byte char character date dec decimal double float geography geometry int integer
        interval long map numeric real short smallint string struct time timestamp timestamp_ltz timestamp_ntz tinyint
        varchar variant void""",
    )
)
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S")


class _NotUnderstood(Exception):
    """Spark may know better."""


def check_columns(ddl: str, name: str) -> None:
    """Refuse columns with a type that there is not. ``name`` is how the user calls them."""
    tokens = [token for token in _TOKEN.findall(ddl) if token]
    if not tokens:
        raise InvalidOption(f"{name}={ddl!r} names no columns: write them as in {name}='user STRING, amount DOUBLE'")
    try:
        _Reader(tokens, ddl, name).columns("")
    except _NotUnderstood:
        return


class _Reader:
    def __init__(self, tokens: list[str], ddl: str, name: str) -> None:
        self._ahead: Iterator[str] = iter(tokens)
        self._ddl = ddl
        self._name = name
        self._next = ""
        self._take()

    def columns(self, end: str) -> None:
        """Names and types, up to ``end``."""
        while True:
            column = self._take()
            if not re.match(r"[\w`]", column):
                raise _NotUnderstood
            if self._next == ":":
                self._take()
            self._type(column)
            while self._next not in {",", end}:  # NOT NULL, COMMENT 'as Spark has it'
                if self._next in {"", "<", ">", "("}:
                    raise _NotUnderstood
                self._take()
            if self._take() == end:
                return

    def _type(self, column: str) -> None:
        word = self._take()
        if word in {"", ","}:
            raise InvalidOption(f"{self._name}={self._ddl!r}: column {column} has no type: write {column} STRING, say")
        if word.lower() not in TYPES:
            near = difflib.get_close_matches(word.lower(), sorted(TYPES), 1)
            remedy = f"{near[0].upper()}" if near else "STRING, DOUBLE, BIGINT or TIMESTAMP, say"
            raise InvalidOption(
                f"{self._name}={self._ddl!r}: column {column} has the type {word}, which Spark does not have: "
                f"write {remedy}"
            )
        if self._next == "(":
            while self._take() != ")":
                if not self._next:
                    raise _NotUnderstood
        if self._next == "<":
            self._take()
            self._inside(word.lower(), column)

    def _inside(self, word: str, column: str) -> None:
        if word == "struct":
            self.columns(">")
            return
        self._type(column)
        if word == "map" and self._next == ",":
            self._take()
            self._type(column)
        if self._take() != ">":
            raise _NotUnderstood

    def _take(self) -> str:
        token, self._next = self._next, next(self._ahead, "")
        return token
