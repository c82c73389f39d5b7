"""What a staged sink notes about its publications, next to the staged rows.

One rule: a note is written before the first row of a publication goes out, and again when all are out. So a repeat
knows whether anything may be out already, even when Kafka has forgotten the markers.

Kafka forgets the offsets of a group without members after ``offsets.retention.minutes``, a week by default.
"""

from dataclasses import dataclass
from pathlib import Path

from headgate import durable
from headgate.checksums import checked_fields, checked_text
from headgate.core.ids import CheckpointId, Generation
from headgate.errors import BadStorage
from headgate.sink.staging import Mark

NAME = "publication.json"
VERSION = 1


@dataclass(frozen=True)
class Note:
    """The newest publication that has begun."""

    incarnation: str
    """Of the job. Notes of an earlier incarnation say nothing about this one."""
    mark: Mark
    begun_ms: int
    """When, by the clock of who began it."""
    done: bool


def read_note(directory: Path, incarnation: str) -> Note | None:
    """What was noted last in this incarnation of the job, if anything was."""
    path = directory / NAME
    try:
        fields = checked_fields(path.read_bytes(), path)
        version = fields["version"]
        if version == VERSION:
            mark = Generation(int(fields["generation"])), CheckpointId(int(fields["checkpoint"]))
            note = Note(str(fields["incarnation"]), mark, int(fields["begun_ms"]), bool(fields["done"]))
            return note if note.incarnation == incarnation else None
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise BadStorage(f"{path} cannot be read ({error}): restore it from a copy") from error
    raise BadStorage(f"{path} has format {version!r}, known is {VERSION}: use the Headgate that wrote it")


def write_note(directory: Path, note: Note) -> None:
    """Put a note in the place of the last one, and on the disk."""
    generation, checkpoint = note.mark
    fields = {
        "version": VERSION,
        "incarnation": note.incarnation,
        "generation": generation,
        "checkpoint": checkpoint,
        "begun_ms": note.begun_ms,
        "done": note.done,
    }
    durable.replace(directory / NAME, checked_text(fields).encode())
