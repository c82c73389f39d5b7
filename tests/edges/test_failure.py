"""Who must act on a failure of a query."""

import pytest

from headgate.core.restart import FailureClass
from headgate.errors import BadStorage, ExternalError, InvalidOption, UserError
from headgate.task.failure import MESSAGE_MAX, OWN_MAX, classify, shorten

USER, EXTERNAL, LOST = FailureClass.USER, FailureClass.EXTERNAL, FailureClass.LOST_EXECUTOR


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.net.ConnectException: Connection refused", EXTERNAL),
        ("org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed", EXTERNAL),
        ("pyspark.errors.exceptions.captured.PythonException: ValueError: bad row", EXTERNAL),
        ("", EXTERNAL),
        ("org.apache.spark.SparkException: ExecutorLostFailure (executor 1 exited unrelated)", LOST),
        ("org.apache.spark.SparkException: Job aborted\n  Lost task: executor 7 lost", LOST),
        ("Executor heartbeat timed out after 130000 ms", LOST),
        ("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] no column x", USER),
        ("org.apache.spark.sql.catalyst.parser.ParseException: [PARSE_SYNTAX_ERROR]", USER),
        ("[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match", USER),
        ("[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] ...", USER),
        ("AnalysisException: cannot resolve", USER),
        ("[PYTHON_STREAMING] PythonDataSourceError: BadStorage: no segment for batch 4", USER),
        ("java.lang.RuntimeException: it broke\n\tat AnalysisException.somewhere(Unknown)", EXTERNAL),
    ],
)
def test_the_class_goes_by_what_spark_says(text: str, kind: FailureClass) -> None:
    assert classify(text).kind is kind


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (InvalidOption("sink out: give a directory"), USER),
        (BadStorage("segment 4 is gone"), USER),
        (ExternalError("the disk is full"), EXTERNAL),
        (ValueError("a row does not please"), EXTERNAL),
        (RuntimeError("ExecutorLostFailure (executor 3 exited)"), LOST),
    ],
)
def test_the_error_that_the_hook_raised_counts_for_more_than_what_spark_made_of_it(
    cause: Exception, kind: FailureClass
) -> None:
    failure = classify("py4j.Py4JException: an exception was raised by the Python proxy", cause)
    assert failure.kind is kind
    assert failure.message == str(cause)


def test_of_a_long_account_the_line_is_kept_that_says_what_happened() -> None:
    account = """
        org.apache.spark.SparkException: Job aborted due to stage failure:
        Traceback (most recent call last):
          File "job.py", line 3, in parse
        ValueError: a row does not please
            at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:581)
    """
    assert shorten(account) == "ValueError: a row does not please"
    assert shorten("com.example.Outer$InnerException: inside\n\tat x.y(z)") == (
        "com.example.Outer$InnerException: inside"
    )
    java = """An error occurred while calling o397.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2989)
Caused by: org.example.TimeoutException: nobody answered"""
    assert shorten(java) == "org.example.TimeoutException: nobody answered"
    assert shorten("first line\nsecond line") == "first line"
    assert shorten(" \n ") == "no reason given"


def test_a_message_has_an_end() -> None:
    short = shorten("ValueError: " + "x" * 1000)
    assert len(short) == MESSAGE_MAX
    assert short.endswith("…")
    assert shorten("x" * MESSAGE_MAX) == "x" * MESSAGE_MAX


def test_what_headgate_says_itself_is_one_line_and_keeps_its_end() -> None:
    advice = "a fact, " * 100 + "and what to do"
    assert classify("", UserError(advice)).message == advice
    assert classify("", ExternalError("a fact\n  and more")).message == "a fact and more"
    assert len(classify("", UserError("x" * 5_000)).message) == OWN_MAX
