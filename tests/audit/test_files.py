"""Files, as any reader reads them, and the command that counts them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from headgate.audit import count, read
from headgate.audit.places import shown
from headgate.cli import app
from headgate.errors import UserError

ROWS = [("a", 1), ("a", 2), ("b", 1)]


def parquet(path: Path, rows: list[tuple[str, int]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({"user": [key for key, _ in rows], "n": [n for _, n in rows], "other": [0] * len(rows)}), path
    )
    return path


def lines(path: Path, objects: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")
    return path


def audit(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["audit", *arguments])
    return done.exit_code, done.output


@pytest.fixture
def source(tmp_path: Path) -> Path:
    parquet(tmp_path / "in" / "part-0.parquet", ROWS)
    return tmp_path / "in"


@pytest.mark.parametrize("kind", ["parquet", "json", "jsonl", "csv", "csv without header", "json.gz", "nested", "hive"])
def test_files_of_every_kind_are_read(source: Path, tmp_path: Path, kind: str) -> None:
    where = tmp_path / "out"
    where.mkdir()
    key, seq = "user", "n"
    plain = pa.table({"user": [user for user, _ in ROWS], "n": [n for _, n in ROWS]})
    match kind:
        case "parquet":
            parquet(where / "x.snappy.parquet", ROWS)
        case "json" | "jsonl":
            lines(where / f"x.{kind}", [{"user": user, "n": n} for user, n in ROWS])
        case "csv":
            pa_csv.write_csv(plain, where / "x.csv")
        case "csv without header":
            pa_csv.write_csv(plain, where / "x.csv", pa_csv.WriteOptions(include_header=False))
            key, seq = "_c0", "_c1"
        case "json.gz":
            text = "".join(json.dumps({"user": user, "n": n}) + "\n" for user, n in ROWS)
            with pa.output_stream(str(where / "x.json.gz"), compression="gzip") as out:
                out.write(text.encode())
        case "nested":
            lines(where / "x.json", [{"order": {"user": user, "n": n}} for user, n in ROWS])
            key, seq = "order.user", "order.n"
        case _:
            for user in ("a", "b"):
                parquet(where / f"day={user}" / "x.parquet", [("?", n) for other, n in ROWS if other == user])
            key = "day"
    found = read(str(where), key=key, seq=seq)
    assert count(read(str(source), key="user", seq="n"), found).exact


def test_what_readers_pass_over_is_passed_over(source: Path) -> None:
    parquet(source / "_staging" / "x.parquet", [("z", 9)])
    parquet(source / ".hidden" / "x.parquet", [("z", 9)])
    parquet(source / "_x.parquet", [("z", 9)])
    parquet(source / ".x.parquet", [("z", 9)])
    (source / "empty.parquet").touch()
    (source / "notes.txt").write_text("nothing")
    assert len(read(source.as_uri(), key="user", seq="n")) == 3


def test_a_directory_without_files_has_no_records(tmp_path: Path) -> None:
    assert len(read(str(tmp_path), key="user", seq="n")) == 0


@pytest.mark.parametrize(
    ("place", "key", "seq", "said"),
    [
        ("nowhere", "user", "n", "there is no such file or directory"),
        ("in", "user", "m", "has no column m; there are: user, n, other"),
        ("in", "user.name", "n", "has no user.name: user is string"),
        ("in", "user", "user", "has no whole number or no text where it should"),
        ("mixed", "user", "n", "files of several kinds (json, parquet)"),
        ("broken", "user", "n", "cannot be read"),
        ("text", "user", "n", "has no file whose name ends in .parquet"),
        ("keyless", "user", "n", "has no user, 1 times"),
        ("numberless", "user", "n", "has no sequence number, 1 times"),
        ("ftp://host/x", "user", "n", "ftp:// is not a place that can be counted"),
        ("kafka://host:9092/", "user", "n", "names no topic"),
        ("postgres://me:secret@host/database", "user", "n", "postgres://me@host/database names no table"),
    ],
)
def test_what_cannot_be_counted_is_said_in_one_line(
    source: Path, tmp_path: Path, place: str, key: str, seq: str, said: str
) -> None:
    parquet(tmp_path / "mixed" / "x.parquet", ROWS)
    lines(tmp_path / "mixed" / "x.json", [{}])
    lines(tmp_path / "keyless" / "x.json", [{"user": "a", "n": 1}, {"n": 2}])
    lines(tmp_path / "numberless" / "x.json", [{"user": "a", "n": 1}, {"user": "a"}])
    for name in ("broken/x.parquet", "text/x.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("?")
    where = place if "://" in place else str(tmp_path / place)
    with pytest.raises(UserError) as refused:
        read(where, key=key, seq=seq)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    code, told = audit("--source", str(source), "--sink", where, "--source-key", "user", "--sink-key", key,
                       "--source-seq", "n", "--sink-seq", seq)  # fmt: skip
    assert (code, told.count("\n"), "secret" in told) == (2, 1, False)


def test_the_command_says_exactly_once_and_ends_well(source: Path, tmp_path: Path) -> None:
    lines(tmp_path / "out" / "x.json", [{"who": user, "numbers": [n]} for user, n in ROWS])
    code, told = audit("--source", str(source), "--sink", str(tmp_path / "out"), "--key", "user", "--seq", "n",
                       "--sink-key", "who", "--sink-seq", "numbers")  # fmt: skip
    assert (code, told) == (0, "exactly once: 3 in, 3 out, 0 lost, 0 duplicated\n")


def test_the_command_names_what_is_wrong_and_ends_with_1(source: Path, tmp_path: Path) -> None:
    parquet(tmp_path / "out" / "x.parquet", [("a", 2), ("b", 1), ("b", 1), ("c", 7)])
    arguments = ("--source", str(source), "--sink", str(tmp_path / "out"), "--key", "user", "--seq", "n")
    code, told = audit(*arguments)
    assert code == 1
    assert told.splitlines() == [
        "NOT exactly once: 3 in, 4 out, 1 lost, 1 duplicated, 1 foreign",
        "  a: missing 1",
        "  b: doubled 1",
        "  c: foreign 7",
    ]
    code, told = audit(*arguments, "--json", "--show", "1")
    assert code == 1
    assert json.loads(told) == {
        "exact": False,
        "in": 3,
        "out": 4,
        "lost": 1,
        "duplicated": 1,
        "foreign": 1,
        "examples": [{"key": "a", "missing": [1], "doubled": [], "foreign": []}],
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no sequence number is named"),
        (["--seq", "n", "--source-key", "user"], "a key is named for one side alone"),
        (["--seq", "n", "--kafka-option", "x"], "write NAME=VALUE"),
    ],
)
def test_a_command_that_does_not_hold_is_refused(source: Path, arguments: list[str], said: str) -> None:
    code, told = audit("--source", str(source), "--sink", str(source), *arguments)
    assert code == 2
    assert said in told


def test_a_place_is_shown_without_its_password() -> None:
    assert shown("postgres://me:secret@host:5432/shop/orders?sslmode=require") == "postgres://me@host:5432/shop/orders"
    assert shown("kafka://host:9092/orders") == "kafka://host:9092/orders"
    assert shown("/data/out") == "/data/out"
