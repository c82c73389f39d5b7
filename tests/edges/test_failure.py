"""Who must act on a failure of a query."""

from pathlib import Path

import pytest

from headgate.core.restart import Failure, FailureClass
from headgate.errors import BadStorage, ExternalError, InternalError, InvalidOption, UserError
from headgate.task import failure
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
        (InternalError("batch 3 is of no known run, after executor 3 lost its way"), FailureClass.INTERNAL),
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


# -- what crossed from a Python worker ---------------------------------------------------------------------------------

HERE = str(Path(failure.__file__).parents[1])
FUNCTION = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/jobs/job.py", line 45, in pay
    raise {raised}
          ^^^^^^^^^
{raised}"""
READER = f"""An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "{HERE}/source/rows.py", line 106, in read
    yield from _read_lines(directory, wanted, stream, _parser(directory, wanted, stream, kind, schema))
                                                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{HERE}/source/rows.py", line 277, in _header
    raise BadStorage(
headgate.errors.BadStorage: /data: the first line of 'a.csv' does not name the column 'user' once: correct the schema"""
PLANNER = f"""org.apache.spark.SparkException: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python \
streaming data source perform latestOffset: Traceback (most recent call last):
  File "{HERE}/source/rows.py", line 311, in _parquet
    return pq.ParquetFile(stream)
           ^^^^^^^^^^^^^^^^^^^^^^
pyarrow.lib.ArrowInvalid: Parquet file size is 4 bytes

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/pyspark/sql/streaming/python_streaming_source_runner.py", line 281, in main
  File "{HERE}/source/rows.py", line 313, in _parquet
    raise _broken(directory, file, error) from error
headgate.errors.BadStorage: /data: 'a.parquet' is broken: replace it
  by a good copy
 SQLSTATE: 38000
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.pythonStreamingDataSourceRuntimeError(QueryErrors.scala:1890)
Caused by: java.lang.IllegalStateException: the worker has gone: for good"""
PROCESSOR = f"""An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "{HERE}/job/processor.py", line 186, in _checked
    for row in rows or ():
  File "/jobs/job.py", line 56, in process
    raise NoMoney("processor")
__headgate__.NoMoney: not enough
"""
CLIENT = f"""An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "{HERE}/connect/postgres/copying.py", line 40, in copy
    copy.write(block)
  File "/opt/lib/python3.11/site-packages/psycopg/copy.py", line 12, in write
    raise ex
psycopg.errors.AdminShutdown: terminating connection due to administrator command"""
CLUSTER = """An error occurred while calling o397.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 3.0 (TID 7) (10.0.0.7): org.apache.spark.api.python.PythonException: Traceback (most \
recent call last):
  File "/jobs/job.py", line 45, in pay
    raise NoMoney(1)
NoMoney: 1

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.committable(PythonRunner.scala:581)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2989)"""
NO_COLUMN = "/data: the first line of 'a.csv' does not name the column 'user' once: correct the schema"


class Busy(ExternalError):
    """As a user may write it in a job's file."""


class Spoiled(UserError):
    """As a user may write it in a job's file."""


@pytest.mark.parametrize(
    ("account", "kind", "message"),
    [
        (READER, USER, NO_COLUMN),
        (PLANNER, USER, "/data: 'a.parquet' is broken: replace it by a good copy"),
        (PROCESSOR, USER, "NoMoney: not enough (job.py:56, in process)"),
        (CLUSTER, USER, "NoMoney: 1 (job.py:45, in pay)"),
        (CLIENT, EXTERNAL, "AdminShutdown: terminating connection due to administrator command"),
    ],
)
def test_what_crossed_from_a_worker_goes_by_what_was_raised_and_keeps_its_words(
    account: str, kind: FailureClass, message: str
) -> None:
    proxy = "py4j.Py4JException: An exception was raised by the Python Proxy."
    assert classify(proxy, RuntimeError(account)) == Failure(kind, message)
    assert classify(account) == Failure(kind, message)


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        ("NoMoney: not enough", USER, "NoMoney: not enough"),
        ("NoMoney", USER, "NoMoney"),
        ("__headgate__.NoMoney: not enough", USER, "NoMoney: not enough"),
        ("ValueError: bad row", USER, "ValueError: bad row"),
        ("shop.build.<locals>.Refused: by the bank", USER, "Refused: by the bank"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", EXTERNAL, "ConnectionRefusedError: [Errno 111]"),
        ("MemoryError", EXTERNAL, "MemoryError"),
        ("requests.exceptions.ReadTimeout: no answer", EXTERNAL, "ReadTimeout: no answer"),
        (f"{__name__}.Busy: try later", EXTERNAL, "try later"),
        (f"{__name__}.Spoiled: throw it away", USER, "throw it away"),
    ],
)
def test_what_a_function_raised_is_the_users_unless_it_speaks_of_another_system(
    raised: str, kind: FailureClass, said: str
) -> None:
    failure = classify("py4j.Py4JException", RuntimeError(FUNCTION.format(raised=raised)))
    assert failure.kind is kind
    assert failure.message.startswith(said)


def test_data_that_an_expression_cannot_take_is_the_users() -> None:
    cast = '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018'
    assert classify("py4j.Py4JException", RuntimeError(cast)) == Failure(USER, cast)
    assert classify(f"org.apache.spark.SparkNumberFormatException: {cast}\n\tat x.y(z)").kind is USER
    assert classify("", RuntimeError("[CONNECT_FAILED] Nobody answered. SQLSTATE: 08001")).kind is EXTERNAL


def test_of_a_long_account_the_line_is_kept_that_says_what_happened() -> None:
    account = """
        org.apache.spark.SparkException: Job aborted due to stage failure:
        Traceback (most recent call last):
          File "job.py", line 3, in parse
        ValueError: a row does not please
            at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.committable(PythonRunner.scala:581)
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
