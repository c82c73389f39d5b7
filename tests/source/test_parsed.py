"""Lines that Spark's own parser gets: its options, its rows, our offsets."""

import bz2
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StructType

from headgate import files
from headgate.core.restart import FailureClass
from headgate.errors import BadStorage, InvalidOption
from headgate.source import parsed, rows
from headgate.source.logdir import LogReader
from headgate.source.options import ALIASES, OPTIONS, form_of
from headgate.task.failure import classify
from tests.source.streams import Stream
from tests.source.test_log_reader import everything

NAMED = "n BIGINT, name STRING"
MARKED = "n BIGINT, name STRING, _corrupt_record STRING"
Found = list[tuple[str | None, ...]]


def texts(frame: DataFrame) -> Found:
    return [tuple(row) for row in frame.select([F.col(name).cast("string") for name in frame.columns]).collect()]


def ours(spark: SparkSession, directory: Path, kind: str, ddl: str, options: Mapping[str, Any]) -> DataFrame:
    """The rows of a directory as ``load`` has them, without a stream: our reader, then Spark's parser."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    form = form_of(kind, None, None, None, options)
    parsed.try_out(spark, schema, form)
    form = replace(form, names=parsed.header_names(form, schema))
    lines = parsed.line_schema(form)
    told = {"directory": str(directory), "form": json.dumps(asdict(form)), "rows_per_batch": "", "partitions": "1"}
    table = pa.Table.from_pylist(everything(LogReader(told, lines)))
    return parsed.rows_of(spark.createDataFrame(table, lines), schema, form, str(directory))


def theirs(spark: SparkSession, directory: Path, kind: str, ddl: str, options: Mapping[str, Any]) -> DataFrame:
    """The same by Spark's own reader, whose other defaults are set to ours."""
    defaults: dict[str, Any] = {"mode": "FAILFAST"} | ({"header": True} if kind == "csv" else {})
    if kind == "json" and "charset" in options:
        defaults["lineSep"] = "\n"
    given = {"sep" if name == "delimiter" else name: value for name, value in options.items()}
    return spark.read.schema(ddl).options(**defaults | given).format(kind).load(str(directory))


def times() -> Iterator[tuple[str, dict[str, Any], str, str, Found]]:
    """Options that both formats have. The text is the value of one column."""
    dotted = "01.02.2026"
    cases: list[tuple[dict[str, Any], str, str, str]] = [
        ({"timestampFormat": "dd.MM.yyyy HH:mm"}, "TIMESTAMP", f"{dotted} 12:34", "2026-02-01 12:34:00"),
        ({"timestampNTZFormat": "dd.MM.yyyy"}, "TIMESTAMP_NTZ", dotted, "2026-02-01 00:00:00"),
        ({"dateFormat": "dd.MM.yyyy"}, "DATE", dotted, "2026-02-01"),
        ({"timeZone": "Asia/Tokyo"}, "TIMESTAMP", "2026-02-01 21:00:00", "2026-02-01 12:00:00"),
        ({"locale": "fr-FR", "dateFormat": "d MMMM yyyy"}, "DATE", "1 février 2026", "2026-02-01"),
        (
            {"enableDateTimeParsingFallback": True, "timestampFormat": "dd.MM.yyyy"},
            "TIMESTAMP",
            "2026-02-01 12:00:00",
            "2026-02-01 12:00:00",
        ),
    ]
    for options, kind, value, found in cases:
        yield "csv", options, f"c {kind}", f"c\n{value}\n", [(found,)]
        yield "json", options, f"c {kind}", json.dumps({"c": value}, ensure_ascii=False), [(found,)]


EACH: list[tuple[str, dict[str, Any], str, str, Found]] = [
    *times(),
    ("csv", {"sep": "||"}, NAMED, "n||name\n1||a|b\n", [("1", "a|b")]),
    ("csv", {"delimiter": "\\t"}, NAMED, "n\tname\n1\ta,b\n", [("1", "a,b")]),
    ("csv", {"header": False}, NAMED, "1,a\n2,b\n", [("1", "a"), ("2", "b")]),
    ("csv", {"enforceSchema": True}, NAMED, "number,other\n1,a\n", [("1", "a")]),
    ("csv", {"quote": "'"}, NAMED, "n,'name'\n1,'a,b'\n", [("1", "a,b")]),
    ("csv", {"escape": '"'}, NAMED, 'n,name\n1,"a ""b"", c"\n', [("1", 'a "b", c')]),
    ("csv", {"charToEscapeQuoteEscaping": "#"}, NAMED, 'n,name\n1,"a#\\"\n', [("1", "a\\")]),
    ("csv", {"unescapedQuoteHandling": "STOP_AT_DELIMITER"}, NAMED, 'n,name\n1,"a"b\n', [("1", '"a"b')]),
    ("csv", {"comment": "#"}, NAMED, "# who\n\nn,name\n1,a\n#2,b\n3,#c\n", [("1", "a"), ("3", "#c")]),
    ("csv", {"ignoreLeadingWhiteSpace": True}, NAMED, "n,name\n 1,  a \n", [("1", "a ")]),
    ("csv", {"ignoreTrailingWhiteSpace": True}, NAMED, "n,name\n1 ,  a \n", [("1", "  a")]),
    ("csv", {"nullValue": "NA"}, NAMED, "n,name\nNA,NA\n1,a\n", [(None, None), ("1", "a")]),
    ("csv", {"emptyValue": "none"}, NAMED, 'n,name\n1,""\n2,\n', [("1", "none"), ("2", None)]),
    ("csv", {"nanValue": "?"}, "d DOUBLE", "d\n?\n", [("NaN",)]),
    ("csv", {"positiveInf": "much"}, "d DOUBLE", "d\nmuch\n", [("Infinity",)]),
    ("csv", {"negativeInf": "little"}, "d DOUBLE", "d\nlittle\n", [("-Infinity",)]),
    ("csv", {"maxColumns": 2}, NAMED, "n,name\n1,a\n", [("1", "a")]),
    ("csv", {"maxCharsPerColumn": 5}, NAMED, "n,name\n1,abcd\n", [("1", "abcd")]),
    ("csv", {"encoding": "ISO-8859-1"}, NAMED, "n,name\n1,\udce9\n", [("1", "é")]),
    ("csv", {"columnNameOfCorruptRecord": "bad", "mode": "permissive"}, "n INT, bad STRING", "n\nx\n", [(None, "x")]),
    ("json", {"columnNameOfCorruptRecord": "bad", "mode": "permissive"}, "n INT, bad STRING", "x\n", [(None, "x")]),
    ("json", {"charset": "iso-8859-1"}, NAMED, '{"n": 1, "name": "\udce9"}\n', [("1", "é")]),
    ("json", {"allowComments": True}, NAMED, '/* x */ {"n": 1}\n// nothing\n', [("1", None)]),
    ("json", {"allowUnquotedFieldNames": True}, NAMED, "{n: 1}\n", [("1", None)]),
    ("json", {"allowSingleQuotes": False, "mode": "dropmalformed"}, NAMED, "{'n': 1}\n{\"n\": 2}\n", [("2", None)]),
    ("json", {"allowNumericLeadingZeros": True}, NAMED, '{"n": 007}\n', [("7", None)]),
    ("json", {"allowNonNumericNumbers": True}, "d DOUBLE", '{"d": -Infinity}\n', [("-Infinity",)]),
    ("json", {"allowBackslashEscapingAnyCharacter": True}, NAMED, '{"name": "\\$"}\n', [(None, "$")]),
    ("json", {"allowUnquotedControlChars": True}, NAMED, '{"name": "a\tb"}\n', [(None, "a\tb")]),
]


@pytest.mark.parametrize(("kind", "options", "ddl", "text", "found"), EACH)
def test_an_option_means_what_it_means_to_spark(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, Any], ddl: str, text: str, found: Found
) -> None:
    (tmp_path / "a").write_bytes(text.encode(errors="surrogateescape"))
    assert texts(ours(spark, tmp_path, kind, ddl, options)) == found
    assert texts(theirs(spark, tmp_path, kind, ddl, options)) == found


def test_every_option_is_tried() -> None:
    tried = {
        kind: {ALIASES.get(name, name) for case in EACH if case[0] == kind for name in case[1]} for kind in OPTIONS
    }
    assert tried == {kind: set(options) for kind, options in OPTIONS.items()}


BAD = {
    "csv": b"n,name\n1,a\nx,b\n \t \n3,c,d\n4\n\xff,\xff\n6,f",
    "json": b'{"n": 1, "name": "a"}\n\n \t \n{"n": "x", "name": "b"}\nnull\n{"n": 4\n3\n{"n": 6, "name": "f"}',
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_lines_that_do_not_fit_become_what_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, kind: str, mode: str
) -> None:
    (tmp_path / "a").write_bytes(BAD[kind])
    found = texts(ours(spark, tmp_path, kind, MARKED, {"mode": mode}))
    assert found == texts(theirs(spark, tmp_path, kind, MARKED, {"mode": mode}).cache())
    assert texts(ours(spark, tmp_path, kind, NAMED, {"mode": mode})) == [row[:2] for row in found]
    assert len(found) == (6 if mode == "PERMISSIVE" else 2)


@pytest.mark.parametrize(("kind", "row"), [("csv", 2), ("json", 4)])
def test_the_first_line_that_does_not_fit_is_named_and_is_for_the_user_to_correct(
    spark: SparkSession, tmp_path: Path, kind: str, row: int
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "a").write_bytes(BAD[kind])
    source = files.source(directory, format=kind, schema=NAMED, rows_per_batch=1, bounded=True, options={})
    stream = Stream(spark, tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException) as raised:
        stream.run(source)
    told = classify(str(raised.value))
    assert told.kind is FailureClass.USER
    assert f"row {row} of 'a' does not fit the schema as Spark parses it: " in told.message
    assert [tuple(each) for each in stream.rows] == [(1, "a")]
    (directory / "a").write_bytes(BAD[kind].replace(b"x", b"2") if kind == "csv" else BAD[kind].replace(b'"x"', b"2"))
    with pytest.raises(StreamingQueryException, match="does not fit the schema as Spark parses it"):
        stream.run(source)
    assert stream.rows[-1].n == 2


@pytest.mark.parametrize("options", [{"maxColumns": 2}, {"maxCharsPerColumn": 3}])
def test_a_line_beyond_a_bound_of_the_parser_is_for_the_user_to_correct(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "a").write_text("n,name\n1,a\n2,abcdef,c,d\n", encoding="utf-8")
    for mode in ("FAILFAST", "PERMISSIVE"):
        with pytest.raises(Exception, match=r"2,abcdef,c,d|exceed") as raised:
            ours(spark, tmp_path, "csv", NAMED, {"mode": mode, **options}).collect()
        assert classify(str(raised.value)).kind is FailureClass.USER


def test_bytes_that_are_no_text_are_named_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"n,name\n1,a\n2,\xff\n")
    with pytest.raises(BadStorage, match="row 2 of 'a' does not fit the schema: it is not in utf-8"):
        ours(spark, tmp_path, "csv", NAMED, {})


@pytest.mark.parametrize(
    ("kind", "ddl", "options", "said"),
    [
        ("csv", NAMED, {"timestampFormat": "QQQ"}, "does not take timestampFormat 'QQQ': .*Illegal pattern character"),
        ("json", NAMED, {"dateFormat": "foo"}, "does not take dateFormat 'foo'"),
        ("csv", "n BIGINT, at TIMESTAMP", {"timestampFormat": "YYYY"}, "does not take the schema and the options"),
        ("json", NAMED, {"timeZone": "Mars/Olympus"}, "The timezone: Mars/Olympus is invalid"),
        ("csv", NAMED, {"unescapedQuoteHandling": "x"}, "No enum constant"),
        ("csv", "n BIGINT, m MAP<STRING, INT>", {}, "Unsupported data type"),
        ("json", "m MAP<INT, INT>", {}, "can only contain STRING as a key type"),
        ("csv", "n BIGINT, _corrupt_record INT", {"mode": "permissive"}, "declare it as STRING"),
    ],
)
def test_what_sparks_parser_does_not_take_is_refused_before_there_is_a_line(
    spark: SparkSession, tmp_path: Path, kind: str, ddl: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidOption, match=said) as raised:
        files.source(tmp_path, format=kind, schema=ddl, options=options).load(spark, None)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["name,n\na,1\n", "n\n1\n", "n,name,more\n1,a,b\n", "# n,name\n1,a\n", "N,name\n1,a\n"]
)
def test_a_first_line_with_other_names_is_an_error_since_spark_goes_by_places(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    (tmp_path / "a").write_text(text, encoding="utf-8")
    with pytest.raises(BadStorage, match=r"the schema n, name: name them alike .* or say enforceSchema=True"):
        ours(spark, tmp_path, "csv", NAMED, {"sep": ","})


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("header", [True, False])
def test_the_mark_at_the_beginning_of_a_file_belongs_to_no_value(
    spark: SparkSession, tmp_path: Path, kind: str, header: bool
) -> None:
    lines = {"csv": "name,n\r\n" * header + "a,1\r\n", "json": '{"name": "a", "n": 1}\r\n'}
    (tmp_path / "a").write_bytes(("\ufeff" + lines[kind]).encode())
    options = {"header": header} if kind == "csv" else {}
    found = texts(ours(spark, tmp_path, kind, "name STRING, n INT", options))
    assert found == [("a", "1")]


def test_a_condition_of_the_job_does_not_have_a_line_parsed_twice(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("n,name\n1,a\n7,b\n", encoding="utf-8")
    for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"):
        few = ours(spark, tmp_path, "csv", NAMED, {"mode": mode}).where("n > 5").select("name")
        plan = few._jdf.queryExecution().executedPlan().toString()
        assert len(re.findall(r"from_csv\(", plan)) == 1
        assert texts(few) == [("b",)]


def lines_of(kind: str, first: int, end: int) -> bytes:
    if kind == "csv":
        return b"".join(b"%d;'no; %d'\n" % (n, n) for n in range(first, end))
    return b"".join(b"{'n': %d, 'name': 'no; %d'}\n" % (n, n) for n in range(first, end))


SINGLE: dict[str, dict[str, Any]] = {
    "csv": {"header": False, "sep": ";", "quote": "'", "mode": "permissive"},
    "json": {"allowSingleQuotes": True, "mode": "permissive"},
}


@pytest.mark.parametrize("kind", SINGLE)
def test_every_row_comes_once_through_a_crash_in_the_middle_of_a_compressed_file(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "a").write_bytes(lines_of(kind, 0, 5) + b"\n")
    (directory / "b.bz2").write_bytes(bz2.compress(lines_of(kind, 5, 30)) + bz2.compress(lines_of(kind, 30, 40)))
    stream = Stream(spark, tmp_path / "checkpoint")
    options = SINGLE[kind]
    stream.run(
        files.source(directory, format=kind, schema=NAMED, rows_per_batch=7, options=options),
        crash_in=2,
    )
    stream.run(files.source(directory, format=kind, schema=NAMED, rows_per_batch=11, options=options, bounded=True))
    assert stream.entered == [0, 1, 2, 2, 3, 4]
    assert [(row.n, row.name) for row in stream.rows] == [(n, f"no; {n}") for n in range(40)]
    assert json.loads(stream.committed_offset() or "") == {"file": "b.bz2", "row": 35, "files": 2}


def test_a_checkpoint_without_options_goes_on_with_them_and_back(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "a").write_text("n,name\n" + "".join(f'{n},"a, {n}"\n' for n in range(30)), encoding="utf-8")
    stream = Stream(spark, tmp_path / "checkpoint")

    def some(batches: int, options: dict[str, Any] | None) -> None:
        source = files.source(directory, format="csv", schema=NAMED, rows_per_batch=4, options=options)
        stream.run(source, until=lambda so_far: len(so_far.batches) >= batches)

    some(2, None)
    some(4, {})
    some(6, None)
    stream.run(files.source(directory, format="csv", schema=NAMED, options={}, bounded=True))
    assert [(row.n, row.name) for row in stream.rows] == [(n, f"a, {n}") for n in range(30)]


@pytest.mark.parametrize("chunk", [20, 1 << 20])
@pytest.mark.parametrize("partitions", [1, 3])
def test_pieces_of_a_file_are_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, partitions: int
) -> None:
    monkeypatch.setattr("headgate.source.logdir.PARTITION_ROWS", 10)
    monkeypatch.setattr(rows, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(rows, "MARK_BYTES", 32)
    head = "\n#c\nn,name\n"
    (tmp_path / "a").write_text(head + "".join(f"{n},a\n" for n in range(100)), encoding="utf-8")
    form = replace(form_of("csv", None, None, None, {"comment": "#"}), names=["n", "name"])
    told = {"directory": str(tmp_path), "form": json.dumps(asdict(form)), "rows_per_batch": ""}
    made = LogReader(told | {"partitions": str(partitions)}, parsed.line_schema(form))
    assert everything(made) == [{"value": f"{n},a", "file": "a", "row": n + 1} for n in range(100)]
