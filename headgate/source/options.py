"""How the files of a log directory are written, as users say it.

One rule: an option has the name and the meaning that Spark's readers give it, or it is refused where it is written.
With ``options`` Spark's own parser gets the lines, and all its options hold; without, Arrow's does, which is faster and
knows ``header`` and ``sep``. Either way rows are lines, and the same lines.
"""

import codecs
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.errors import InvalidOption

FORMATS = ("json", "csv", "parquet", "text")
PERMISSIVE, DROPMALFORMED, FAILFAST = "PERMISSIVE", "DROPMALFORMED", "FAILFAST"
MODES = (PERMISSIVE, DROPMALFORMED, FAILFAST)
"""What becomes of a line that does not fit, in Spark's words."""
CORRUPT = "_corrupt_record"
"""The column that gets such a line as it stands, if the schema has it. Spark's name for it."""

Option = str | int | float | bool
FLAG, CHARACTER, NUMBER, TEXT = "True or False", "one character", "a whole number", "text"
_BOTH = {
    FLAG: "enableDateTimeParsingFallback",
    TEXT: "columnNameOfCorruptRecord dateFormat encoding locale mode timeZone timestampFormat timestampNTZFormat",
}
_CSV = {
    FLAG: "enforceSchema header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace",
    CHARACTER: "charToEscapeQuoteEscaping comment escape quote",
    NUMBER: "maxCharsPerColumn maxColumns",
    TEXT: "emptyValue nanValue negativeInf nullValue positiveInf sep unescapedQuoteHandling",
}
_JSON = {
    FLAG: """allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros
        allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames""",
}
OPTIONS = {
    kind: {name: what for names in (_BOTH, own) for what, some in names.items() for name in some.split()}
    for kind, own in (("csv", _CSV), ("json", _JSON))
}
"""What Spark's parsers take, for each format, and what it may be."""
ALIASES = {"delimiter": "sep", "charset": "encoding"}
_INFERENCE = """dropfieldifallnull inferschema infertimestamp mergeschema preferdate prefersdecimal primitivesasstring
    samplingratio"""
REFUSED = {
    "multiline": "a row is one line, since an offset counts lines",
    "linesep": "lines end in \\n or \\r\\n",
    "compression": "the end of a file's name says how it is compressed",
    "maxfilespertrigger": "give rows_per_batch",
    "maxbytespertrigger": "give rows_per_batch",
    "cleansource": "give consumed",
    "columnpruning": "whether a line fits must not depend on who reads it",
} | dict.fromkeys(_INFERENCE.split(), "the schema is given, and nothing is inferred")
"""Options of Spark's readers that such files cannot have, in small letters, and why."""
ENCODINGS = re.compile(r"utf-8|us-ascii|iso-8859-\d{1,2}|windows-125\d", re.IGNORECASE)
"""In these the byte of a newline is always one, so that lines can be counted before they are decoded."""


@dataclass(frozen=True)
class Form:
    """How files are written, and what becomes of lines that do not fit."""

    kind: str
    header: bool = True
    """Of CSV files: whether their first line names the columns."""
    sep: str = ","
    """Of CSV files: what stands between two columns."""
    mode: str = FAILFAST
    options: Mapping[str, str] | None = None
    """What Spark's parser is told beside these. None: it is not asked."""
    names: Sequence[str] = ()
    """What the first line must say, if Spark's parser is asked, which goes by the places of columns."""

    @property
    def by_spark(self) -> bool:
        """Whether Spark's parser gets the lines."""
        return self.options is not None

    def option(self, name: str, otherwise: str) -> str:
        """An option of Spark's parser."""
        return (self.options or {}).get(name, otherwise)


def form_of(kind: str, mode: object, header: object, sep: object, options: object) -> Form:
    """How the files are written, if that can be. None: nothing was said."""
    given = None if options is None else _known(kind, options)
    mode = _once("mode", mode, given)
    if mode is not None and (not isinstance(mode, str) or mode.upper() not in MODES):
        raise _wrong(f"mode is {mode!r}: give one of {', '.join(MODES)}")
    mode = FAILFAST if mode is None else str(mode).upper()
    if mode != FAILFAST and kind not in OPTIONS:
        raise _wrong(f"mode={mode!r} is for json and csv, not for {kind}: leave it out")
    header, sep = _once("header", header, given), _once("sep", sep, given)
    for name, value in (("header", header), ("sep", sep)):
        if value is not None and kind != "csv":
            raise _wrong(f"{name}={value!r} is for csv, not for {kind}: leave it out")
    if header is not None and not isinstance(header, bool):
        raise _wrong(f"header is {header!r}: give True or False")
    if given is None and sep is not None and (not isinstance(sep, str) or len(sep.encode()) != 1 or sep in '"\r\n'):
        raise _wrong(f"sep is {sep!r}: give one character of ASCII, such as ';' or '\\t'")
    if given is not None and sep is not None and (not isinstance(sep, str) or not sep or "\n" in sep):
        raise _wrong(f"sep is {sep!r}: give text, such as ';' or '||'")
    told = None if given is None else {name: _as_spark_writes(value) for name, value in given.items()}
    return Form(kind, header is not False, str(sep or ","), mode, told)


def _known(kind: str, options: object) -> dict[str, Option]:
    """Options under the names that Spark's documents have, if Spark's parser has them for this format."""
    if not isinstance(options, Mapping):
        raise _wrong(f"options is {options!r}: give a dictionary, such as {{'quote': \"'\"}}")
    if kind not in OPTIONS:
        raise _wrong(f"options are for json and csv, not for {kind}: leave them out")
    names = {name.lower(): name for name in OPTIONS[kind]}
    names |= {alias: name for alias, name in ALIASES.items() if name in OPTIONS[kind]}
    known: dict[str, Option] = {}
    for said, value in options.items():
        small = str(said).lower()
        if small == "multiline" and _flag(value) is False:
            continue
        if small in REFUSED:
            raise _wrong(f"options has {said!r}, which cannot be: {REFUSED[small]}")
        if small not in names:
            near = difflib.get_close_matches(small, names, 1)
            meant = f"did you mean {names[near[0]]!r}? " if near else ""
            raise _wrong(f"options has {said!r}, which is none of {kind}: {meant}There are {_listed(kind)}")
        if names[small] in known:
            raise _wrong(f"options has {names[small]!r} twice: leave one out")
        known[names[small]] = _fitting(str(said), value, OPTIONS[kind][names[small]])
    if str(known.get("unescapedQuoteHandling", "")).upper() == "RAISE_ERROR":
        raise _wrong(
            "options has unescapedQuoteHandling RAISE_ERROR, which Spark does not ask mode about: take another"
        )
    encoding = str(known.get("encoding", "utf-8"))
    if ENCODINGS.fullmatch(encoding) is None or not _is_codec(encoding):
        raise _wrong(
            f"options has the encoding {encoding!r}, in which lines cannot be counted before they are read: "
            f"give UTF-8, US-ASCII, ISO-8859-1 to -16 or windows-1250 to -1258, or convert the files"
        )
    return known


def _fitting(name: str, value: object, kind: str) -> Option:
    """The value of an option, if it is of the kind that the option has."""
    flag = _flag(value)
    if kind == FLAG and flag is not None:
        return flag
    if kind == NUMBER and not isinstance(value, bool) and re.fullmatch(r"-?\d+", str(value)):
        return str(value)
    if kind == CHARACTER and isinstance(value, str) and (len(value) <= 1 or re.fullmatch(r"\\.", value)):
        return value
    if kind == TEXT and isinstance(value, str):
        return value
    raise _wrong(f"options has {name!r}: {value!r}: give {kind}")


def _once(name: str, value: object, given: dict[str, Option] | None) -> object:
    """What was said by an argument or among the options, and not by both."""
    if given is None or name not in given:
        return value
    if value is not None:
        raise _wrong(f"{name} is given as an argument and among the options: leave one out")
    return given.pop(name)


def _flag(value: object) -> bool | None:
    return {"true": True, "false": False}.get(str(value).lower())


def _as_spark_writes(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_codec(encoding: str) -> bool:
    try:
        codecs.lookup(encoding)
    except LookupError:
        return False
    return True


def _listed(kind: str) -> str:
    return ", ".join(sorted(OPTIONS[kind], key=str.lower))


def _wrong(why: str) -> InvalidOption:
    return InvalidOption(f"files.source: {why}")
