"""Which disk is full. A file system that never has room is there on every Linux: /proc."""

from pathlib import Path

import pytest

from headgate import room
from headgate.errors import ExternalError
from headgate.sink.staged import tell_full

FULL = Path("/proc")
NO_SPACE = RuntimeError("[TASK_WRITE_FAILED] Task failed while writing rows to file:/out. No space left on device")


@pytest.fixture
def roomy(tmp_path: Path) -> Path:
    free = room.left(tmp_path)
    if free is None or free < room.LITTLE:
        pytest.skip("this disk is full")
    return tmp_path


def test_the_place_that_is_full_is_named(roomy: Path) -> None:
    told = room.blame(NO_SPACE, {"sink out writes to": roomy, "the working directory": FULL})
    assert told == "the working directory /proc has 0 MB left: No space left on device: make room there"


def test_if_none_of_them_is_full_all_are_told(roomy: Path) -> None:
    told = room.blame(RuntimeError("Disk quota exceeded"), {"the working directory": roomy, "gone": Path("/no/such")})
    assert told is not None
    assert told.startswith("Disk quota exceeded, on a disk of an executor or for a quota of this user (the working")
    assert "gone" not in told


def test_an_error_about_something_else_is_left_alone() -> None:
    assert room.blame(RuntimeError("nobody answers"), {"the working directory": FULL}) is None


def test_a_sink_is_not_blamed_for_the_disk_of_somebody_else(roomy: Path) -> None:
    tell_full("sink out: cannot stage batch 3", roomy, NO_SPACE)
    with pytest.raises(
        ExternalError, match="sink out: cannot stage batch 3 in /proc: No space left on device: make room"
    ):
        tell_full("sink out: cannot stage batch 3", FULL, NO_SPACE)
