"""What a sink has, read as anybody would read it, against what its receipts say.

One rule: what is compared is what readers see, and nothing is touched. Files are looked at one by one, each against its
size and checksum; of a topic and of a table the rows are counted. What cannot be read, or cannot be compared, is said.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from headgate.audit.places import count_rows, shown
from headgate.checksums import damage, in_parallel, measure
from headgate.errors import BadStorage, ExternalError, UserError
from headgate.receipts.receipt import Receipt
from headgate.receipts.sequence import AuditFinding, AuditKind, batches
from headgate.sink.committable import StagedCommittable, hash_of
from headgate.sink.staging import Staging

EXAMPLES_MAX = 20
"""At most this many things of one kind are named, and the rest counted."""
_OURS = re.compile(r"part-(?P<label>.+)-g(?P<generation>\d+)-b(?P<batch>\d+)-")


@dataclass(frozen=True)
class Looked:
    """What was seen of a sink."""

    findings: tuple[AuditFinding, ...] = ()
    rows: int | None = None
    """How many rows are there of this sink, as far as they were counted."""
    proven: str = ""
    """What was compared, in words."""


@dataclass(frozen=True)
class ToCompare:
    """What a sink should have."""

    published: Sequence[Receipt]
    """In the order of batches, with what came out again."""
    in_doubt: Sequence[Receipt]
    whole: bool
    """Whether they begin with the first batch."""
    again: Callable[[], Sequence[Receipt]] = tuple
    """All receipts once more: of a job that runs, more may have been published since they were read."""


def look(job: str, sink: str, wanted: ToCompare, options: Mapping[str, str]) -> Looked:
    """Compare a sink with its receipts."""
    places = {each.place for each in wanted.published} - {None}
    place = next((each.place for each in reversed(wanted.published) if each.place is not None), None)
    if place is None:
        return Looked(
            (AuditFinding(AuditKind.UNPROVEN, "what this sink has cannot be read here: only its receipts were"),)
        )
    if len(places) > 1:
        listed = ", ".join(sorted(shown(each) for each in places if each is not None))
        return Looked(
            (AuditFinding(AuditKind.UNPROVEN, f"it wrote to several places ({listed}): they were not compared"),)
        )
    try:
        if "://" in place:
            return _counted(place, wanted, options)
        return _files(job, sink, Path(place), wanted)
    except (ExternalError, UserError, OSError) as error:
        reason = " ".join(str(error).split())
        return Looked((AuditFinding(AuditKind.UNPROVEN, f"{shown(place)} could not be read: {reason}"),))


# -- rows that are counted -------------------------------------------------------------------------------------------


def _counted(place: str, wanted: ToCompare, options: Mapping[str, str]) -> Looked:
    """Rows of a topic or of a table, all of them, against all receipts."""
    found = count_rows(place, options)
    where = shown(place)
    unknown = [each.checkpoint for each in wanted.published if each.rows is None]
    if unknown or not wanted.whole:
        why = (
            f"nobody counted what checkpoint {unknown[0]} published"
            if unknown
            else "the receipts do not begin with the first batch"
        )
        text = f"{where} has {found} rows, which were not compared: {why}"
        return Looked((AuditFinding(AuditKind.UNPROVEN, text),), found)
    expected = sum(each.rows or 0 for each in wanted.published)
    doubtful = sum(each.rows or 0 for each in wanted.in_doubt)
    if found > expected + doubtful:  # Or the job goes on meanwhile.
        doubtful = max(doubtful, sum(each.rows or 0 for each in wanted.again()) - expected)
    if expected <= found <= expected + doubtful:
        return Looked((), found, f"{found} rows in {where}, as the receipts say")
    said = f"{where} has {found} rows, the receipts have {expected}"
    if found < expected:
        text = f"{said}: {expected - found} are missing, or were deleted since"
        return Looked((AuditFinding(AuditKind.MISSING, text),), found)
    text = f"{said}: {found - expected - doubtful} are there twice, or somebody else wrote them"
    return Looked((AuditFinding(AuditKind.DOUBLED, text),), found)


# -- files -----------------------------------------------------------------------------------------------------------


def _files(job: str, sink: str, target: Path, wanted: ToCompare) -> Looked:
    if not target.is_dir():
        return Looked((AuditFinding(AuditKind.MISSING, f"{target} is not there, with all that was published to it"),))
    staging = Staging(target, job, sink)  # type: ignore[arg-type]  # a name
    findings: list[AuditFinding] = []
    expected: dict[Path, tuple[Receipt, int, int | None]] = {}
    unlisted: list[Receipt] = []
    for receipt in wanted.published:
        try:
            listed = None if receipt.committable is None else StagedCommittable.from_text(receipt.committable)
        except BadStorage as error:
            findings.append(_of(receipt, AuditKind.UNPROVEN, f"its receipt names no files: {error}"))
            listed = None
        if listed is None:
            unlisted.append(receipt)
            continue
        for write_id, part in listed.write_ids():
            for file in part.files:
                expected[staging.final(write_id, file.path)] = (receipt, file.size, file.checksum)
    there = set(_visible(target))
    findings += [found for each in unlisted if (found := _by_hash(each, staging, there)) is not None]
    checked = in_parallel(lambda each: _compare(each, *expected[each], there=each in there), list(expected))
    findings += [found for found in checked if found is not None]
    doubtful = [*unlisted, *wanted.in_doubt]
    first = wanted.published[0] if wanted.published and not wanted.whole else None
    others = 0
    for path in sorted(there - set(expected)):
        named = _OURS.match(path.name)
        if named is not None and named["label"] != staging.label:
            others += 1
            continue
        found = _unexpected(path, named, doubtful, first)
        if found is not None and not (named is not None and _since(named, wanted)):
            findings.append(found)
    rows, wrong = _rows(expected, there, wanted.published)
    findings += wrong
    if others:
        findings.append(AuditFinding(AuditKind.UNPROVEN, f"{others} files of other sinks in {target} were passed over"))
    return Looked(tuple(_shortened(findings)), rows, f"{len(expected)} files in {target}, each with its checksum")


def _by_hash(receipt: Receipt, staging: Staging, there: set[Path]) -> AuditFinding | None:
    """Files whose names are not in the receipt, since there were too many: all of its batches, by the sum over them."""
    if receipt.hash is None:
        return _of(receipt, AuditKind.UNPROVEN, "its receipt lists no files: they were not compared")
    files = []
    for path in there:
        named = _OURS.match(path.name)
        if named is None or named["label"] != staging.label or int(named["generation"]) != receipt.generation:
            continue
        if receipt.after < int(named["batch"]) <= receipt.through:
            files.append(path)
    facts = in_parallel(measure, files)
    if hash_of((each.size, each.checksum) for each in facts) == receipt.hash:
        return None
    return _of(
        receipt, AuditKind.CHANGED, f"its {len(files)} files are not what it published: some changed, or are gone"
    )


def _compare(path: Path, receipt: Receipt, size: int, checksum: int | None, *, there: bool) -> AuditFinding | None:
    if not there:
        return _of(receipt, AuditKind.MISSING, f"{path} is gone, which it published")
    try:
        wrong = damage(path, size, checksum)
    except OSError as error:
        return _of(receipt, AuditKind.UNPROVEN, f"{path} cannot be read: {error.strerror or error}")
    return _of(receipt, AuditKind.CHANGED, f"{wrong}, and not what it published") if wrong else None


def _unexpected(
    path: Path, named: "re.Match[str] | None", doubtful: Sequence[Receipt], first: Receipt | None
) -> AuditFinding | None:
    """A file that readers see and no receipt has."""
    if named is None:
        return AuditFinding(AuditKind.FOREIGN, f"{path} is not of this sink, and readers take its rows for the job's")
    generation, batch = int(named["generation"]), int(named["batch"])
    about = next((one for one in doubtful if one.generation == generation and one.after < batch <= one.through), None)
    if about is not None:
        return None  # It is said of the receipt.
    if first is not None and (generation, batch) <= (first.generation, first.after):
        return None  # So old that there are no receipts, which is said.
    return AuditFinding(
        AuditKind.DOUBLED,
        f"{path} says that it is batch {batch} of generation {generation}, and no receipt has it: its rows are there "
        "twice, or nobody published them",
        None,
        generation,
    )


def _since(named: "re.Match[str]", wanted: ToCompare) -> bool:
    """Whether it was published after the receipts were read."""
    generation, batch = int(named["generation"]), int(named["batch"])
    return any(one.generation == generation and one.after < batch <= one.through for one in wanted.again())


def _rows(
    expected: Mapping[Path, tuple[Receipt, int, int | None]], there: set[Path], published: Sequence[Receipt]
) -> tuple[int | None, list[AuditFinding]]:
    """How many rows are in the files, by their footers; and where that is not what a receipt says."""
    of_receipt: dict[tuple[str, int, int], int | None] = {each.key: 0 for each in published}
    gone: set[tuple[str, int, int]] = set()
    for path, (receipt, _, _) in expected.items():
        count = _footer(path) if path in there else None
        before = of_receipt[receipt.key]
        of_receipt[receipt.key] = None if count is None or before is None else before + count
        if path not in there:
            gone.add(receipt.key)
    wrong = [
        _of(each, AuditKind.CHANGED, f"its files have {of_receipt[each.key]} rows, its receipt says {each.rows}")
        for each in published
        if each.rows is not None
        and of_receipt[each.key] not in (None, each.rows)
        and each.committable is not None
        and each.key not in gone
    ]
    counts = list(of_receipt.values())
    return (None if None in counts else sum(count for count in counts if count is not None)), wrong


def _footer(path: Path) -> int | None:
    if path.suffix != ".parquet":
        return None
    try:
        return int(parquet.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None


def _visible(target: Path) -> Iterator[Path]:
    """What a reader of the directory sees."""
    for entry in target.iterdir():
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            yield from _visible(entry)
        else:
            yield entry


def _of(receipt: Receipt, kind: AuditKind, text: str) -> AuditFinding:
    said = (
        f"checkpoint {receipt.checkpoint}, {batches(receipt.after, receipt.through)} of generation {receipt.generation}"
    )
    return AuditFinding(kind, f"{said}: {text}", receipt.checkpoint, receipt.generation)


def _shortened(findings: Sequence[AuditFinding]) -> Iterator[AuditFinding]:
    for kind in AuditKind:
        found = [each for each in findings if each.kind is kind]
        yield from found[:EXAMPLES_MAX]
        if len(found) > EXAMPLES_MAX:
            yield AuditFinding(kind, f"and {len(found) - EXAMPLES_MAX} more of the same kind")
