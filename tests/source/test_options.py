"""What users say of how files are written, judged where they say it."""

import re
from typing import Any

import pytest

from headgate import files
from headgate.errors import InvalidOption
from headgate.source.options import form_of


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"options": {"qoute": "'"}}, "options has 'qoute', which is none of csv: did you mean 'quote'? There are "),
        ({"options": {"recursive": True}}, "which is none of csv: There are charToEscapeQuoteEscaping, columnNameOf"),
        ({"options": {"allowComments": True}}, "which is none of csv"),
        ({"format": "json", "options": {"quote": "'"}}, "which is none of json"),
        ({"format": "json", "options": {"header": True}}, "which is none of json"),
        ({"options": {"multiLine": True}}, "'multiLine', which cannot be: a row is one line, since an offset counts"),
        ({"options": {"multiline": "TRUE"}}, "which cannot be: a row is one line"),
        ({"options": {"lineSep": ";"}}, "which cannot be: lines end in"),
        ({"options": {"inferSchema": True}}, "which cannot be: the schema is given"),
        ({"options": {"compression": "gzip"}}, "which cannot be: the end of a file's name says"),
        ({"options": {"maxFilesPerTrigger": 1}}, "which cannot be: give rows_per_batch"),
        ({"options": {"encoding": "UTF-16"}}, "the encoding 'UTF-16', in which lines cannot be counted before"),
        ({"options": {"charset": "iso-8859-99"}}, "the encoding 'iso-8859-99'"),
        ({"options": {"quote": "''"}}, "options has 'quote': \"''\": give one character"),
        ({"options": {"maxColumns": "many"}}, "options has 'maxColumns': 'many': give a whole number"),
        ({"options": {"maxColumns": True}}, "options has 'maxColumns': True: give a whole number"),
        ({"options": {"ignoreLeadingWhiteSpace": "maybe"}}, "'ignoreLeadingWhiteSpace': 'maybe': give True or False"),
        ({"options": {"nullValue": None}}, "options has 'nullValue': None: give text"),
        ({"options": {"unescapedQuoteHandling": "raise_error"}}, "which Spark does not ask mode about"),
        ({"options": {"sep": ""}}, "sep is '': give text"),
        ({"options": {"sep": ";", "delimiter": ","}}, "options has 'sep' twice"),
        ({"options": {"Quote": "'", "quote": '"'}}, "options has 'quote' twice"),
        ({"options": {"sep": ";"}, "sep": ","}, "sep is given as an argument and among the options"),
        ({"options": {"mode": "permissive"}, "mode": "FAILFAST"}, "mode is given as an argument and among the options"),
        ({"options": {"mode": "lenient"}}, "mode is 'lenient': give one of PERMISSIVE, DROPMALFORMED, FAILFAST"),
        ({"options": "sep=;"}, "options is 'sep=;': give a dictionary"),
        ({"format": "text", "options": {}}, "options are for json and csv, not for text: leave them out"),
        ({"format": "parquet", "options": {"mergeSchema": True}}, "not for parquet: leave them out"),
        ({"mode": 3}, "mode is 3: give one of"),
    ],
)
def test_an_option_that_cannot_hold_is_refused_where_it_is_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(said)) as error:
        files.source("/data", schema="n BIGINT", **{"format": "csv", **options})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("mode", ["permissive", "DropMalformed", "FAILFAST"])
def test_a_mode_may_be_written_in_any_case_and_in_either_place(mode: str) -> None:
    for kind in ("csv", "json"):
        assert form_of(kind, mode, None, None, None).mode == mode.upper()
        assert form_of(kind, None, None, None, {"MODE": mode}).mode == mode.upper()


def test_options_have_the_names_of_spark_in_any_case_and_its_other_names() -> None:
    form = form_of("csv", None, None, None, {"DELIMITER": "||", "Header": "false", "charset": "UTF-8", "maxcolumns": 9})
    assert (form.sep, form.header, form.options) == ("||", False, {"encoding": "UTF-8", "maxColumns": "9"})
    assert form_of("csv", None, None, None, {"multiLine": "false"}).options == {}


def test_arguments_hold_beside_options() -> None:
    form = form_of("csv", "permissive", False, ";", {"quote": "'"})
    assert (form.mode, form.header, form.sep, form.options) == ("PERMISSIVE", False, ";", {"quote": "'"})


def test_spark_is_asked_only_if_options_are_given() -> None:
    assert not form_of("csv", None, None, None, None).by_spark
    assert form_of("csv", None, None, None, {}).by_spark
    described = files.source("/data", schema="n BIGINT", options={}, mode="permissive").describe()
    assert described == "files of /data (json by Spark's parser, PERMISSIVE, in batches that size themselves)"
