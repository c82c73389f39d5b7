"""A job's file, as a new user gets it wrong: one line, which says where, what, and what to do. No Spark is started."""

from pathlib import Path

import pytest

import headgate
from headgate.errors import ExternalError, InvalidJob
from headgate.run.start import load_job

HEAD = """import headgate as hg
from pathlib import Path
"""
GOOD = """
class Loud(hg.Processor):
    output = "a STRING"
    def process(self, key, rows, context): ...

job = hg.Job("orders", checkpoint=hg.Checkpointing(storage=Path("state")))
orders = job.source("orders", hg.generator.source(rows=10))
"""


def told(directory: Path, body: str) -> str:
    path = directory / "job.py"
    path.write_text(HEAD + body)
    with pytest.raises(InvalidJob) as refused:
        load_job(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('hg.generator.source(rows="many")', "generator.source: rows is 'many': give a whole number, as in rows=1000"),
        ("hg.generator.source(keys=2.5)", "generator.source: keys is 2.5: give a whole number, as in keys=1000"),
        ("hg.generator.source(rows_per_batch=0.5)", "generator.source: rows_per_batch is 0.5: give a whole number"),
        ('hg.generator.source(skew="much")', "generator.source: skew is 'much': give a number, as in skew=0"),
        ("hg.generator.source(start=5)", "generator.source: start is 5: give a time such as '2025-01-01T00:00:00Z'"),
        ('hg.files.source("in", schema="a STRIN")', "column a has the type STRIN, which Spark does not have: write"),
        ('hg.files.source("in", schema=None)', "files.source: schema is None: give columns, such as"),
        ('hg.files.source(None, schema="a INT")', "files.source: path is None: give the path of a directory"),
        (
            'hg.files.source("in", schema="a INT", rows_per_batch="few")',
            "rows_per_batch is 'few': give a whole number",
        ),
        ("hg.files.sink(7)", "files.sink: path is 7: give the path of a directory"),
        ('hg.files.sink("out", files_per_batch="one")', "files_per_batch is 'one': give a whole number"),
        ('hg.Checkpointing(storage="state", interval="soon")', "interval='soon' is not a valid duration"),
        ('hg.Job("a", checkpoint=hg.Checkpointing(storage="gs://b/c"))', "Spark has no file system for 'gs'"),
        ('hg.Job("a", checkpoint=hg.Checkpointing(storage="s3://b/c"))', "write s3a:// in its place"),
        (
            'hg.Job("a", checkpoint=hg.Checkpointing(storage="x"), spark_conf={"spark.speculation": True})',
            "spark.speculation=true is not allowed, it must be false: two attempts at one output would both be written",
        ),
        (
            'hg.Job("a", checkpoint=hg.Checkpointing(storage="x"), spark_conf={"spark.remote": "sc://x"})',
            "is for Spark Connect, which Headgate cannot use",
        ),
        ('orders.join("j", orders, on="key", how="outerr")', "how='outerr': choose one of 'inner', 'left', 'right'"),
        ("Loud.output = 'a STRIN'; orders.process('p', Loud(), key='key')", "Loud.output='a STRIN': column a has the"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("orders.sinc('out', None)", "AttributeError: 'Stream' object has no attribute 'sinc'"),
        ("raise SystemExit", "SystemExit"),
        ("helped()", "NameError: name 'helped' is not defined"),
        ("int('a\\nb')", "ValueError: invalid literal for int() with base 10"),
        ("x = (", "SyntaxError: '(' was never closed"),
    ],
)
def test_what_is_wrong_in_a_jobs_file_is_told_with_file_and_line(tmp_path: Path, wrong: str, said: str) -> None:
    message = told(tmp_path, GOOD + wrong + "\n")
    line = (HEAD + GOOD).count("\n") + 1
    assert message.startswith(f"job.py:{line}: ")
    assert said in message
    assert message.count("job.py:") == 1


def test_the_line_is_that_of_the_jobs_file_also_if_it_called_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "my_parts_of_a_job.py").write_text("def part():\n\n    return {}['gone']\n")
    assert told(tmp_path, "import my_parts_of_a_job\nmy_parts_of_a_job.part()\n") == "job.py:4: KeyError: 'gone'"


def test_a_server_that_is_away_is_not_the_jobs_fault(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(HEAD + "raise hg.ExternalError('nobody is there')\n")
    with pytest.raises(ExternalError) as refused:
        load_job(path)
    assert str(refused.value) == "job.py:3: nobody is there"


def test_a_file_system_that_the_user_names_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        f"{HEAD}job = hg.Job('a', checkpoint=hg.Checkpointing(storage='gs://b/c'), "
        "spark_conf={'spark.hadoop.fs.gs.impl': 'com.example.FileSystem'})\n"
    )
    assert load_job(path).checkpoint.storage == "gs://b/c"


def test_whoever_looks_around_sees_what_there_is() -> None:
    assert dir(headgate) == sorted(headgate.__all__)
