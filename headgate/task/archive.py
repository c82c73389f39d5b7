"""An archive of the classes that Spark's driver process loads: a JVM maps it instead of reading jars.

The first process that starts in some way lists the classes that it loads. When a batch has gone through, another JVM,
which runs none of Spark and has the lowest priority, makes the archive from the list, under another name; then it is
renamed. It goes on when the job has ended: for half a minute, by itself.

One rule: an archive only saves time. The JVM checks that the same Java made it from the same jars, and that every byte
is as it was; else it starts without.
"""

import contextlib
import fcntl
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.task.logs import logger

if TYPE_CHECKING:
    from headgate.task.launch import Start

SETTLED_S = 15.0
"""A process that has run for this long, and has been through a batch, has loaded most of what it will."""
LOOK_S = 2.0
AGAIN_S = 24 * 3600.0
"""If no archive could be made, it is tried again after this long."""
BATCH_DONE = b"StreamingQueryListener$QueryProgressEvent"
"""A class that is loaded when the first batch has gone through."""
_SPOKEN_OF = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|LoadedClassList|RecordDynamicDump|javaagent")
_TAKEN_OVER = re.compile(r"--add-|--enable-|-XX:[+-](Use\w+|IgnoreUnrecognizedVMOptions)$|-Xmx")
"""Options that have to be the same where an archive is made and where it is used."""
_MAKE = """
(
    new=$1 archive=$2 classes=$3
    shift 3
    echo 19 >/proc/self/autogroup || :  # Linux weighs sessions, and nice counts only within one.
    if nice -n 19 "$@"; then mv -f "$new" "$archive"; else rm -f "$new"; : >"$archive"; fi
    rm -f "$classes"
) </dev/null >/dev/null 2>&1 &
"""


def possible(java: Path) -> bool:
    """Whether this Java knows archives: it brings one of its own classes."""
    return (java.parent.parent / "lib" / "server" / "classes.jsa").exists()


def is_spoken_of(text: str) -> bool:
    """Whether the user has said something about archives, or has classes changed while they are loaded."""
    return _SPOKEN_OF.search(text) is not None


def exists(archive: Path) -> bool:
    """Whether it was made."""
    try:
        return archive.stat().st_size > 0
    except OSError:
        return False


def using(archive: Path) -> list[str]:
    """The options for a process that starts from an archive. It says nothing when it does without."""
    return [f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off,class+path*=off"]


def listing(classes: Path) -> list[str]:
    """The options for a process that lists its classes."""
    return [f"-XX:DumpLoadedClassList={classes}"]


@contextlib.contextmanager
def made_beside(start: "Start | None") -> Iterator[None]:
    """Make the archive while a job runs, if there is none; or when it ends, if that is earlier."""
    if start is None or not start.archived or not start.classes.exists() or _was_tried(start.archive):
        yield
        return
    over = threading.Event()
    maker = threading.Thread(target=_when_settled, args=(start, over), daemon=True, name="classes")
    maker.start()
    try:
        yield
    finally:
        over.set()
        maker.join()


def make(start: "Start") -> bool:
    """Have an archive made from the list of classes, by processes that go on by themselves. False if others do so."""
    command = start.command()
    if command is None:
        return False
    new = start.archive.with_name(f".{start.key}.{os.getpid()}.new")
    classes = start.archive.with_name(f".{start.key}.{os.getpid()}.classes")
    with start.archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # The processes inherit it.
        except OSError:
            return False
        if _was_tried(start.archive):
            return False
        listed = start.classes.read_bytes()
        classes.write_bytes(listed[: listed.rfind(b"\n") + 1])
        made_by = _command(command, new, classes)
        asked = ["sh", "-c", _MAKE, "sh", str(new), str(start.archive), str(classes), *made_by]
        subprocess.run(asked, check=True, pass_fds=[lock.fileno()], start_new_session=True)  # noqa: S603
    return True


def _command(command: list[str], archive: Path, classes: Path) -> list[str]:
    """The JVM that makes an archive for processes with this command."""
    at = command.index("-cp")
    options = [part for part in command[1:] if _TAKEN_OVER.match(part)]
    made = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}"]
    return [command[0], *made, *command[at : at + 2], *options]


def _when_settled(start: "Start", over: threading.Event) -> None:
    """Wait for a batch, and some time; then make the archive, once."""
    begun = time.monotonic()
    while not over.wait(LOOK_S):
        if time.monotonic() - begun >= SETTLED_S and _has_run(start):
            break
    try:
        if _has_run(start):
            make(start)
        start.classes.unlink()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        logger.info("no archive of classes was made: %s", error)


def _has_run(start: "Start") -> bool:
    with contextlib.suppress(OSError):
        return BATCH_DONE in start.classes.read_bytes()
    return False


def _was_tried(archive: Path) -> bool:
    """An empty one says that it could not be made."""
    try:
        facts = archive.stat()
    except OSError:
        return False
    return facts.st_size > 0 or time.time() - facts.st_mtime < AGAIN_S
