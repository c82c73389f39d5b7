"""What `headgate audit JOB` and `headgate rollback JOB` say of files that somebody was at, and of lost receipts."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from headgate.cli import app
from headgate.receipts.gather import gather
from headgate.receipts.proof import prove
from headgate.receipts.sequence import AuditKind
from headgate.sink.committable import hash_of
from headgate.sink.files import _lines_in
from tests.receipts.published import OUT, ROWS, PublishedJob


@pytest.fixture
def job(tmp_path: Path) -> PublishedJob:
    return PublishedJob(tmp_path)


def asked(job: PublishedJob, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words, "--storage", job.uri])
    return done.exit_code, done.output


def audited(job: PublishedJob) -> tuple[int, dict[str, Any]]:
    code, output = asked(job, "audit", "orders", "--json")
    [sink] = json.loads(output)["sinks"]
    return code, sink


def only(sink: dict[str, Any], kind: str) -> str:
    [found] = [each for each in sink["findings"] if each["kind"] == kind]
    return str(found["text"])


def test_what_was_published_is_proven_from_offsets_receipts_and_files(job: PublishedJob) -> None:
    for batch in range(3):
        job.publish(batch)
    code, sink = audited(job)
    assert (code, sink["holds"], sink["findings"]) == (0, True, [])
    assert (sink["receipts"], sink["rows"], sink["found_rows"]) == (3, 3 * ROWS, 3 * ROWS)
    assert sink["read"] == {"in": [None, "3"]}
    text = asked(job, "audit", "orders")[1]
    assert text.startswith("out: nothing is missing or doubled: 3 receipts, 15 rows, checkpoints 2 to 4\n")
    assert "  read in from the beginning to 3\n" in text


def test_a_file_that_is_gone_is_named_with_its_checkpoint(job: PublishedJob) -> None:
    for batch in range(3):
        job.publish(batch)
    gone = job.files()[1]
    gone.unlink()
    code, sink = audited(job)
    assert code == 1
    assert only(sink, "missing") == f"checkpoint 3, batch 1 of generation 1: {gone} is gone, which it published"


def test_a_file_that_was_changed_is_named(job: PublishedJob) -> None:
    job.publish(0)
    [file] = job.files()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    code, sink = audited(job)
    assert code == 1
    assert only(sink, "changed").startswith(f"checkpoint 2, batch 0 of generation 1: {file}")


def test_rows_that_are_there_twice_are_named(job: PublishedJob) -> None:
    job.publish(0)
    [file] = job.files()
    again = file.with_name(file.name.replace("-b0-", "-b9-"))
    shutil.copy(file, again)
    code, sink = audited(job)
    assert code == 1
    assert only(sink, "doubled").startswith(f"{again} says that it is batch 9 of generation 1, and no receipt has it")


def test_a_file_of_somebody_else_is_named(job: PublishedJob) -> None:
    job.publish(0)
    parquet.write_table(pa.table({"n": [1]}), job.target / "mine.parquet")
    (job.target / "_notes").write_text("readers pass this over", encoding="utf-8")
    code, sink = audited(job)
    assert code == 1
    assert only(sink, "foreign").startswith(f"{job.target / 'mine.parquet'} is not of this sink")


def test_files_of_another_sink_are_passed_over_and_said_to_be(job: PublishedJob) -> None:
    job.publish(0)
    shutil.copy(job.files()[0], job.target / "part-orders.alerts-g1-b0-00000-x.parquet")
    code, sink = audited(job)
    assert code == 0
    assert only(sink, "not proven") == f"1 files of other sinks in {job.target} were passed over"


def test_a_receipt_that_was_lost_is_taken_from_the_record(job: PublishedJob) -> None:
    """The process died after the commit, and the next one went on: the record still tells."""
    job.publish(0)
    job.publish(1, told=False)
    job.publish(2)
    code, sink = audited(job)
    assert (code, sink["rows"]) == (0, 3 * ROWS)
    assert only(sink, "not proven").startswith("checkpoint 3: its receipt is not in the history")


def test_a_receipt_that_nobody_has_is_named_as_missing(job: PublishedJob) -> None:
    job.publish(0)
    lost = job.publish(1, told=False)
    job.publish(2)
    job.store.delete_record(lost.checkpoint)
    code, sink = audited(job)
    assert code == 1
    assert "there is no receipt for batch 1, between checkpoints 2 and 4 (source in from 1 to 2)" in only(
        sink, "missing"
    )
    assert only(sink, "doubled").endswith("its rows are there twice, or nobody published them")


def test_a_commit_of_which_nobody_wrote_is_in_doubt_until_it_is_committed_again(job: PublishedJob) -> None:
    job.publish(0)
    last = job.publish(1, told=False)
    code, sink = audited(job)
    assert code == 0
    assert only(sink, "in doubt").startswith("checkpoint 3 decided to commit batch 1 (5 rows), and nobody has written")
    job.dies()
    job.began(2, 3)
    job.commit(last)
    code, sink = audited(job)
    assert (code, sink["findings"], sink["rows"]) == (0, [], 2 * ROWS)


def test_what_an_earlier_release_committed_is_not_in_doubt(job: PublishedJob) -> None:
    """It kept no receipts, and wrote only that the checkpoint was committed by every sink."""
    last = job.publish(0, told=False)
    job.append({"event": "checkpoint-committed", "id": last.checkpoint, "commit_ms": 1, "retries": 0})
    assert asked(job, "transactions", "orders")[1] == "no transaction is in doubt\n"
    code, sink = audited(job)
    assert (code, [each["kind"] for each in sink["findings"]]) == (0, ["not proven"])


def test_a_repeated_commit_is_one_receipt_with_the_time_of_the_first(job: PublishedJob) -> None:
    one = job.publish(0)
    job.commit(one, at_ms=9_000)
    code, sink = audited(job)
    assert (code, sink["receipts"], sink["rows"]) == (0, 1, ROWS)


def test_going_back_behind_what_was_published_is_named_as_doubled(job: PublishedJob) -> None:
    first = job.publish(0)
    job.publish(1)
    job.began(2, first.checkpoint)
    job.publish(1)
    code, sink = audited(job)
    assert code == 1
    assert "generation 2 began from checkpoint 2, before that: they come out again" in only(sink, "doubled")


def test_a_target_that_is_not_there_is_missing(job: PublishedJob) -> None:
    job.publish(0)
    shutil.rmtree(job.target)
    code, sink = audited(job)
    assert (code, only(sink, "missing")) == (1, f"{job.target} is not there, with all that was published to it")


def test_a_receipt_that_cannot_be_read_is_a_problem(job: PublishedJob) -> None:
    job.publish(0)
    job.append({"event": "receipt", "id": 3, "sink": OUT, "receipt": {"sink": 7}})
    code, output = asked(job, "audit", "orders")
    assert code == 1
    assert "unreadable: the history, at 2000, has a receipt that cannot be read" in output


def test_a_job_without_receipts_is_refused(job: PublishedJob) -> None:
    code, output = asked(job, "audit", "orders")
    assert code == 2
    assert "job orders has no receipts yet" in output


def test_a_job_and_places_do_not_go_together(job: PublishedJob) -> None:
    code, output = asked(job, "audit", "orders", "--seq", "n")
    assert (code, "give a job, or the places of any job" in output) == (2, True)
    assert CliRunner().invoke(app, ["audit"]).exit_code == 2


def test_a_dry_run_lists_what_was_published_after_a_checkpoint(job: PublishedJob) -> None:
    for batch in range(3):
        job.publish(batch)
    before = sorted((path, path.stat().st_mtime_ns) for path in Path(job.uri).rglob("*"))
    code, output = asked(job, "rollback", "orders", "--to", "2", "--dry-run")
    assert code == 0
    assert output.splitlines()[0].startswith("out: 10 rows in 2 commits; can be taken back: yes, by hand")
    assert "  checkpoint 3: batch 1, 5 rows, read in 1 to 2" in output
    assert output.endswith("2 commits of 1 sinks; nothing was changed\n")
    assert sorted((path, path.stat().st_mtime_ns) for path in Path(job.uri).rglob("*")) == before
    sinks = json.loads(asked(job, "rollback", "orders", "--to", "2", "--dry-run", "--json")[1])["sinks"]
    assert [each["checkpoint"] for each in sinks[0]["receipts"]] == [3, 4]


def test_only_a_dry_run_is_there(job: PublishedJob) -> None:
    job.publish(0)
    code, output = asked(job, "rollback", "orders", "--to", "2")
    assert (code, "only --dry-run is supported" in output) == (2, True)
    code, output = asked(job, "rollback", "orders", "--to", "9", "--dry-run")
    assert (code, "checkpoint 9 is not known: the newest is 2" in output) == (2, True)


JOB_FILE = """
import headgate as hg

job = hg.Job("orders", checkpoint=hg.Checkpointing(storage="{storage}"))
rows = job.source("in", hg.files.source("{place}/in", schema="n LONG"))
rows.sink("out", hg.files.sink("{place}/out"))
"""


@pytest.fixture
def job_file(job: PublishedJob, tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    path = tmp_path / "job.py"
    path.write_text(JOB_FILE.format(storage=job.uri, place=tmp_path), encoding="utf-8")
    return str(path)


def owing(job: PublishedJob) -> None:
    """Its process died when checkpoint 3 was complete, and before its sink committed."""
    job.publish(0)
    job.complete(job.next, 1, [job.pre_commit(1, job.next)])


def test_what_is_in_doubt_is_listed_and_committed_by_hand_with_a_reason(job: PublishedJob, job_file: str) -> None:
    owing(job)
    [seen] = json.loads(asked(job, "transactions", "orders", "--json")[1])
    assert (seen["sink"], seen["checkpoint"], seen["rows"], seen["committed_ms"]) == ("out", 3, ROWS, None)
    assert asked(job, "transactions", "orders")[1].startswith(
        "out: checkpoint 3, batches 1 to 1 of generation 1, 5 rows"
    )
    code, output = asked(job, "transactions", "commit", job_file, "out")
    assert (code, "is recorded with a reason" in output, len(job.files())) == (2, True, 1)
    code, output = asked(job, "transactions", "commit", job_file, "out", "--reason", "the  disk\nis mended")
    assert (code, output, len(job.files())) == (0, "sink out: 1 transactions are committed\n", 2)
    assert asked(job, "transactions", "orders")[1] == "no transaction is in doubt\n"
    [decided] = [line for line in job.store.read_history() if line["event"] == "decision"]
    assert (decided["decision"], decided["sinks"], decided["reason"]) == ("commit", ["out"], "the disk is mended")
    code, sink = audited(job)
    assert (code, sink["findings"], sink["rows"]) == (0, [], 2 * ROWS)
    assert "to be committed by hand: the disk is mended" in asked(job, "events", "orders")[1]
    code, output = asked(job, "transactions", "commit", job_file, "out", "--reason", "again")
    assert (code, "sink out of job orders owes no commit" in output) == (2, True)


def test_only_a_sink_that_the_job_has_is_committed_by_hand(job: PublishedJob, job_file: str) -> None:
    owing(job)
    code, output = asked(job, "transactions", "commit", job_file, "lost", "--reason", "why not")
    assert (code, "job orders has no sink lost; it has: out" in output) == (2, True)
    code, output = asked(job, "transactions", "commit", "orders", "out", "--reason", "why not")
    assert (code, "give the job's file" in output) == (2, True)
    assert asked(job, "transactions", "orders", "out")[0] == 2


def test_what_was_given_up_is_named_as_missing(job: PublishedJob) -> None:
    owing(job)
    code, _ = asked(job, "cancel", "orders", "--abandon-commits", "out", "--reason", "the target is gone")
    assert code == 0
    code, sink = audited(job)
    assert code == 1
    assert any("the commit of checkpoint 3 was given up by a user" in each["text"] for each in sink["findings"])
    assert "commits are to be given up: the target is gone" in asked(job, "events", "orders")[1]


def test_files_that_a_receipt_does_not_list_are_proven_by_their_sum(
    job: PublishedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.run.receipts.COMMITTABLE_MAX", 10)
    job.publish(0)
    job.store.delete_record(job.publish(1).checkpoint)
    assert audited(job)[1]["findings"] == []
    job.files()[0].write_bytes(b"something else")
    code, sink = audited(job)
    assert (code, "checkpoint 2, batch 0" in only(sink, "changed")) == (1, True)


@pytest.mark.parametrize(
    ("text", "lines"), [(b"", 0), (b"{}\n", 1), (b"{}\n{}\n" * 200_000, 400_000), (b"{}\n{}", None)]
)
def test_rows_of_json_are_counted_by_their_ends(tmp_path: Path, text: bytes, lines: int | None) -> None:
    file = tmp_path / "part.json"
    file.write_bytes(text)
    assert _lines_in(file) == lines


def test_the_sum_of_files_does_not_depend_on_their_order() -> None:
    assert hash_of([(1, 2), (3, 4)]) == hash_of([(3, 4), (1, 2)]) != hash_of([(1, 4), (3, 2)])
    assert hash_of([(1, 2), (1, 2)]) != hash_of([])
    assert hash_of([(1, None)]) is None


def test_what_is_published_while_the_audit_reads_is_not_taken_for_doubled(job: PublishedJob) -> None:
    """Its receipts are read, then the job publishes more, then its files are looked at."""
    job.publish(0)
    early = gather(job.store)
    job.publish(1)
    job.publish(2, told=False)
    [sink] = prove("orders", early, again=lambda: gather(job.store)).sinks
    assert sink.findings == ()
    [sink] = prove("orders", early).sinks
    assert [each.kind for each in sink.findings] == [AuditKind.DOUBLED] * 2
