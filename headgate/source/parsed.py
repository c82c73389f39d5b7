"""Rows of lines, made by Spark's own parser.

One rule: a line is a row, or none, or an error, and it is parsed once. Lines come from our source, under its offsets;
``from_csv`` and ``from_json`` are the parsers of Spark's readers. They have PERMISSIVE alone here, and say of each line
whether it fits, so that an error can name the line, and a line can be left out.

The rows come out of a generator (``inline``): Spark moves no condition of the job's past it, which would parse a line
once for the condition and once for the row.
"""

import json

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import LongType, StringType, StructType

from headgate.errors import InvalidOption
from headgate.source.lines import SPACE
from headgate.source.options import CORRUPT, DROPMALFORMED, FAILFAST, PERMISSIVE, Form

UNFIT = "_headgate_unfit"
"""The column that says whether a line fits, where the user's schema has none for it."""
SHOWN_CHARS = 80
OURS = {"header", "encoding", "comment", "enforceSchema", "columnNameOfCorruptRecord"}
"""Options that are done when a line comes to the parser, or are said otherwise."""
FORMATS = ("dateFormat", "timestampFormat", "timestampNTZFormat")


def line_schema(form: Form) -> StructType:
    """What the source has to hand out: the line, and where it stands if an error is to say that."""
    lines = StructType().add("value", StringType())
    return lines.add("file", StringType()).add("row", LongType()) if form.mode == FAILFAST else lines


def header_names(form: Form, schema: StructType) -> list[str]:
    """What the first line of each file must name. Nothing, if there is none, or nobody is to look."""
    if form.kind != "csv" or not form.header or form.option("enforceSchema", "false") == "true":
        return []
    return [name for name in schema.names if name != corrupt_column(form)]


def corrupt_column(form: Form) -> str:
    """The column that gets a line that does not fit, if the schema has it."""
    return form.option("columnNameOfCorruptRecord", CORRUPT)


def rows_of(lines: DataFrame, schema: StructType, form: Form, directory: str) -> DataFrame:
    """The rows of lines."""
    unfit = corrupt_column(form) if corrupt_column(form) in schema.names else UNFIT
    if form.kind == "csv":
        lines = lines.where(F.btrim("value", F.lit(SPACE)) != "")
        if comment := form.option("comment", ""):
            lines = lines.where(~F.startswith("value", F.lit(comment)))

    def wanted(row: Column) -> Column:
        fits = row.getField(unfit).isNull()
        if form.mode == PERMISSIVE:
            return row.isNotNull()
        if form.mode == DROPMALFORMED:
            return row.isNotNull() & fits
        return row.isNotNull() & F.when(fits, fits).otherwise(F.raise_error(_unfit(directory)).cast("boolean"))

    rows = lines.select(F.inline(F.filter(F.array(_parsed(F.col("value"), schema, form)), wanted)))
    return rows.drop(UNFIT)


def try_out(spark: SparkSession, schema: StructType, form: Form) -> None:
    """Refuse what Spark's parser does not take, before there is a line: it would say of every line that it is unfit."""
    line = json.dumps(dict.fromkeys(schema.names, "x")) if form.kind == "json" else form.sep.join("x" for _ in schema)
    parsers = [("the schema and the options", _parsed(F.lit(line), schema, form))]
    patterns = [(name, (form.options or {})[name]) for name in FORMATS if name in (form.options or {})]
    parsers += [(f"{name} {pattern!r}", F.try_to_timestamp(F.lit("x"), F.lit(pattern))) for name, pattern in patterns]
    for what, parser in parsers:
        try:
            tried = spark.range(1).select(parser)
            tried._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - which works out what is constant
        except (PySparkException, Py4JError, ValueError) as error:
            why = str(error).strip().splitlines()[0]
            raise InvalidOption(f"files.source: Spark's parser of {form.kind} does not take {what}: {why}") from None


def _parsed(line: Column, schema: StructType, form: Form) -> Column:
    unfit = corrupt_column(form) if corrupt_column(form) in schema.names else UNFIT
    whole = schema if unfit in schema.names else StructType([*schema.fields]).add(unfit, StringType())
    told = {name: value for name, value in (form.options or {}).items() if name not in OURS}
    told |= {"mode": PERMISSIVE, "columnNameOfCorruptRecord": unfit}
    if form.kind == "json":
        return F.from_json(line, whole, told)
    return F.from_csv(line, whole.toDDL(), told | {"sep": form.sep})


def _unfit(directory: str) -> Column:
    return F.concat(
        F.lit(f"{directory}: row "),
        F.col("row").cast("string"),
        F.lit(" of '"),
        F.col("file"),
        F.lit("' does not fit the schema as Spark parses it: "),
        F.substring("value", 1, SHOWN_CHARS),
        F.lit(": correct the schema or the options, or replace the file by one with this row corrected"),
    )
