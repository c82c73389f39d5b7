"""Directories that a job would write to: each that cannot be used, or should not, is produced for real."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.doctor import directory as rules
from headgate.doctor.finding import Finding, Severity
from headgate.doctor.measuring import directory
from tests.mounts import Mount, needs_root


def look(path: Path, *, lasting: bool = True, records: bool = True) -> dict[str, Finding]:
    found = directory("storage", path, lasting=lasting, records=lasting and records)
    return {finding.name: finding for finding in rules.findings(found)}


def test_a_directory_that_is_there_or_can_be_made_is_good_and_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"1")
    for path in (tmp_path, tmp_path / "a" / "b"):
        seen = look(path)
        assert seen["storage"].verdict is Severity.OK
        assert seen["storage: clock"].verdict is Severity.OK
        assert " ms" in seen["storage: flush"].evidence
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_in_the_way_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = look(tmp_path / "file" / "storage")["storage"]
    assert found.verdict is Severity.PROBLEM
    assert "a file is where a folder should be" in found.evidence


def test_a_directory_in_which_nothing_may_be_written_is_a_problem(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if os.geteuid() == 0:
        place: Path = request.getfixturevalue("mount")("size=1m,ro")
    else:
        place = tmp_path / "closed"
        place.mkdir(0o555)
    for lasting in (True, False):
        found = look(place, lasting=lasting)["storage"]
        assert found.verdict is Severity.PROBLEM
        assert found.evidence.startswith(f"{place} cannot be used: ")
        assert found.advice == "give this user the right to read and write there"


def test_a_file_system_without_hard_links_is_a_problem_for_a_storage_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", link)
    found = look(tmp_path)["storage"]
    assert found.verdict is Severity.PROBLEM
    assert "it has no hard links" in found.evidence
    assert found.advice == "use another file system"
    assert look(tmp_path, records=False)["storage"].verdict is Severity.OK, "a working directory does with copies"
    assert look(tmp_path, lasting=False)["storage"].verdict is Severity.OK
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_on_which_two_create_one_record_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    found = look(tmp_path)["storage"]
    assert found.verdict is Severity.PROBLEM
    assert "created twice" in found.evidence


@needs_root
@pytest.mark.parametrize(
    ("options", "verdict"), [("size=1m", Severity.PROBLEM), ("size=200m", Severity.WARNING), ("size=2g", Severity.OK)]
)
def test_little_room_is_found(mount: Mount, options: str, verdict: Severity) -> None:
    assert look(mount(options))["storage: room"].verdict is verdict


@needs_root
def test_a_full_disk_is_a_problem_in_the_words_of_the_storage(mount: Mount) -> None:
    place = mount("size=64k")
    with pytest.raises(OSError, match="No space left"):
        (place / "all").write_bytes(bytes(1 << 20))
    found = look(place)["storage"]
    assert found.verdict is Severity.PROBLEM
    assert found.advice == "make room there"


@needs_root
def test_few_files_left_are_found(mount: Mount) -> None:
    seen = look(mount("size=2g,nr_inodes=100"))
    assert seen["storage: room"].verdict is Severity.WARNING
    assert "more files" in seen["storage: room"].evidence


@needs_root
def test_a_storage_in_memory_is_warned_of_and_temporary_files_there_are_only_told(mount: Mount) -> None:
    place = mount("size=2g")
    kept, thrown_away = (look(place / "below", lasting=lasting) for lasting in (True, False))
    assert kept["storage: file system"].verdict is Severity.WARNING
    assert kept["storage: file system"].evidence.endswith("is on tmpfs")
    assert thrown_away["storage: file system"].verdict is Severity.NOTE


@needs_root
def test_temporary_files_where_no_program_runs_are_warned_of(mount: Mount) -> None:
    assert "storage: programs" not in look(mount("size=2g"), lasting=False)
    place = mount("size=2g,noexec")
    assert look(place, lasting=False)["storage: programs"].verdict is Severity.WARNING
    assert "storage: programs" not in look(place), "nothing is run there"


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("ext4", Severity.OK),
        ("nfs4", Severity.NOTE),
        ("fuse.sshfs", Severity.NOTE),
        ("overlay", Severity.NOTE),
        ("tmpfs", Severity.WARNING),
        (None, Severity.NOTE),
    ],
)
def test_what_a_kind_of_file_system_means_is_told(tmp_path: Path, kind: str | None, verdict: Severity) -> None:
    found = replace(directory("storage", tmp_path), kind=kind)
    assert rules.file_system(found).verdict is verdict


def test_a_flush_is_judged_only_where_no_checkpoint_could_be_quick(tmp_path: Path) -> None:
    found = directory("storage", tmp_path)
    assert rules.flush(found, rules.SLOW_FLUSH_MS).verdict is Severity.OK
    assert rules.flush(found, rules.SLOW_FLUSH_MS + 1).verdict is Severity.WARNING


def test_a_server_of_files_with_another_time_is_warned_of(tmp_path: Path) -> None:
    found = directory("storage", tmp_path)
    assert rules.clock(found, 0.0).evidence.startswith("new files there are dated +0.0 s")
    assert {rules.clock(found, skew).verdict for skew in (-6.0, 6.0)} == {Severity.WARNING}
