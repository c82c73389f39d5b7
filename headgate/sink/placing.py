"""The commit of a file sink: pre-committed files are put in place.

One rule: first see that everything that was pre-committed is there, and is what was pre-committed; then note that the
commit has begun, and only then rename. So whoever finds the note knows that a file which no longer waits was put in
place, even if its reader has taken it away since; and if there is no note, that a file which neither waits nor stands
in its place is lost.

If we die before the note, nothing has happened; after it, or between two renames, the next commit renames the rest;
after the last rename, it only removes what is left of the parts.
"""

from dataclasses import dataclass
from pathlib import Path

from headgate.durable import directories, force
from headgate.errors import BadStorage
from headgate.sink.committable import CommittableFile, StagedCommittable
from headgate.sink.staged import check_pre_committed
from headgate.sink.staging import HIDDEN, Staging, discard


@dataclass(frozen=True)
class Move:
    """One file, on its way into readers' sight."""

    staged: Path
    final: Path
    pre_committed: CommittableFile


def place(pre_committed: StagedCommittable, target: Path) -> None:
    """Commit. Any process may do so at any time, also while another does the same."""
    staging = Staging(target, pre_committed.job, pre_committed.sink)
    staging.root.stat()  # without it nothing can be said about any file
    moves = [
        Move(staging.part(write_id) / file.path, staging.final(write_id, file.path), file)
        for write_id, part in pre_committed.write_ids()
        for file in part.files
    ]
    for move in _begin(staging, pre_committed, moves):
        _rename(move)
    force([found for found in directories([move.final for move in moves], top=target) if found.exists()])
    for write_id, _ in pre_committed.write_ids():
        discard(staging.part(write_id))


def _begin(staging: Staging, pre_committed: StagedCommittable, moves: list[Move]) -> list[Move]:
    """The files that wait to be moved, once it is noted that the commit has begun."""
    mark = (pre_committed.generation, pre_committed.checkpoint)
    noted = staging.newest_commit()
    waiting: list[Move] = []
    gone: list[Move] = []
    for move in moves:
        (waiting if move.staged.exists() else gone).append(move)
    check_pre_committed(pre_committed, [(move.staged, move.pre_committed) for move in waiting])
    # Commits come in order. So if a later one is noted and yet something waits, the note is from an earlier incarnation
    # of a job whose storage was begun anew since, with lower numbers: it says nothing about this commit.
    if noted is not None and (noted == mark or (noted > mark and not waiting)):
        return waiting
    lost = [move for move in gone if not move.final.exists()]
    if not lost:
        staging.remember(mark)
        return waiting
    if staging.newest_commit() != noted:
        return _begin(staging, pre_committed, moves)  # another process has begun this commit since we looked
    raise BadStorage(
        f"sink {pre_committed.sink}: {len(lost)} of {len(moves)} files that checkpoint {pre_committed.checkpoint} "
        f"pre-committed are neither staged nor committed, the first is {lost[0].staged}: put {HIDDEN} back as it was, "
        "or the sink's path"
    )


def _rename(move: Move) -> None:
    move.final.parent.mkdir(parents=True, exist_ok=True)
    try:
        move.staged.replace(move.final)
    except FileNotFoundError:
        # Another process that commits the same has moved it, or else the directory was removed under our hands.
        if move.staged.exists():
            raise
