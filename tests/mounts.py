"""File systems for tests that need one of their own: a small one in memory, and one on a disk that is slow.

One rule: nothing is left. What was mounted is unmounted at the end, however that comes. Only root can mount.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.server import find_program

Mount = Callable[[str], Path]
"""Makes a small file system in memory, with these options."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
BLKIO = Path("/sys/fs/cgroup/blkio")
needs_throttle = pytest.mark.skipif(
    not (BLKIO / "blkio.throttle.write_bps_device").exists(), reason="the kernel slows no disk down: no blkio here"
)


@contextmanager
def in_memory(place: Path, options: str) -> Iterator[Path]:
    """A file system in memory."""
    with _mounted(place, "-t", "tmpfs", "-o", options, "tmpfs"):
        yield place


@contextmanager
def on_a_slow_disk(place: Path, *, bytes_s: int) -> Iterator[Path]:
    """A file system on a disk to which the kernel lets this process write so many bytes a second."""
    image = place.with_name(f"{place.name}.image")
    with image.open("wb") as file:
        file.truncate(4 << 30)  # Nothing of it is there until it is written.
    # Nothing is left for the kernel to write by itself later, at this pace.
    made = ("-q", "-O", "^has_journal", "-N", "16384", "-E", "lazy_itable_init=0")
    subprocess.run([find_program("mkfs.ext4"), *made, str(image)], check=True)
    with _mounted(place, "-o", "loop", str(image)):
        device = place.stat().st_dev
        slow = _own_group() / "blkio.throttle.write_bps_device"
        slow.write_text(f"{os.major(device)}:{os.minor(device)} {bytes_s}")
        try:
            yield place
        finally:
            slow.write_text(f"{os.major(device)}:{os.minor(device)} 0")


@contextmanager
def _mounted(place: Path, *what: str) -> Iterator[None]:
    place.mkdir()
    subprocess.run([find_program("mount"), *what, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run([find_program("umount"), "--lazy", str(place)], check=True)


def _own_group() -> Path:
    """The control group of this process: the kernel slows down what those in it write."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, kinds, path = line.split(":", 2)
        if "blkio" in kinds.split(","):
            return BLKIO / path.lstrip("/")
    raise AssertionError("this process has no control group for disks")
