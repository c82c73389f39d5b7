"""Two sets of records against each other.

One rule: a record is its key and its sequence number, and is counted as often as it is there. One that was put in twice
must come out twice.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.errors import UserError

KEY, SEQ = "key", "seq"
SCHEMA = pa.schema([(KEY, pa.large_string()), (SEQ, pa.int64())])
IDS_MAX = 2**62
SHOWN_MAX = 10
"""How many numbers of one key are shown."""

Ids = npt.NDArray[np.int64]
Pairs: TypeAlias = "pa.Table | tuple[Any, Any]"
"""A table with the columns ``key`` and ``seq``, or keys and sequence numbers: Arrow, numpy or lists. With None for the
keys, the sequence numbers alone tell records apart. A sequence number may be a list of them."""


@dataclass(frozen=True)
class Example:
    """What is wrong with one key. Of many numbers the lowest are shown."""

    key: str | None
    missing: tuple[int, ...] = ()
    doubled: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()

    def __str__(self) -> str:
        kinds = (("missing", self.missing), ("doubled", self.doubled), ("foreign", self.foreign))
        said = "; ".join(f"{kind} {', '.join(map(str, numbers))}" for kind, numbers in kinds if numbers)
        return said if self.key is None else f"{self.key}: {said}"


@dataclass(frozen=True)
class Verdict:
    """What came out, against what went in."""

    wanted: int
    found: int
    lost: int
    doubled: int
    foreign: int
    """Came out and never went in."""
    examples: tuple[Example, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether everything came out once, and nothing else."""
        return self.lost == self.doubled == self.foreign == 0

    def __str__(self) -> str:
        said = "exactly once" if self.exact else "NOT exactly once"
        foreign = f", {self.foreign} foreign" if self.foreign else ""
        return f"{said}: {self.wanted} in, {self.found} out, {self.lost} lost, {self.doubled} duplicated{foreign}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "exact": self.exact,
            "in": self.wanted,
            "out": self.found,
            "lost": self.lost,
            "duplicated": self.doubled,
            "foreign": self.foreign,
            "examples": [
                {"key": one.key, "missing": one.missing, "doubled": one.doubled, "foreign": one.foreign}
                for one in self.examples
            ],
        }


def count(source: Pairs, sink: Pairs, *, show: int = 10) -> Verdict:
    """Compare what went in with what came out. ``show``: of this many keys it is told what is wrong with them."""
    went_in, came_out = pairs_of(source), pairs_of(sink)
    numbering = _Numbering.of(went_in, came_out)
    inside, outside = (np.sort(ids) for ids in numbering.ids)
    if np.array_equal(inside, outside):
        return Verdict(len(inside), len(outside), 0, 0, 0)
    known, times_in, times_out = _times(inside, outside)
    wrong = times_in != times_out
    known, times_in, times_out = known[wrong], times_in[wrong], times_out[wrong]
    less, unknown = times_in > times_out, times_in == 0
    kinds = np.where(less, 0, np.where(unknown, 2, 1))
    totals = np.bincount(kinds, weights=np.abs(times_in - times_out), minlength=3)
    lost, doubled, foreign = (int(total) for total in totals)
    return Verdict(len(inside), len(outside), lost, doubled, foreign, numbering.examples(known, kinds, show))


def pairs_of(pairs: Pairs, who: str = "a record") -> pa.Table:
    """The records in one form: keys as text, sequence numbers as whole numbers, none of them missing."""
    keys, numbers = (pairs[KEY], pairs[SEQ]) if isinstance(pairs, pa.Table) else pairs
    numbers = _column(numbers)
    keys = pa.chunked_array([pa.nulls(len(numbers))]) if keys is None else _column(keys)
    if pa.types.is_list(numbers.type) or pa.types.is_large_list(numbers.type):
        keys, numbers = keys.take(pc.list_parent_indices(numbers)), pc.list_flatten(numbers)
    try:
        numbers = pc.cast(numbers, pa.int64())
        keys = pc.cast(keys, pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{who} has no whole number or no text where it should: {reason}") from error
    if numbers.null_count:
        raise UserError(f"{who} has no sequence number, {numbers.null_count} times: name the right column")
    return pa.table({KEY: keys, SEQ: numbers}, schema=SCHEMA)


def _column(values: Any) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    return pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values)])


def _times(inside: Ids, outside: Ids) -> tuple[Ids, Ids, Ids]:
    """Every record that is anywhere, and how often it is on each side."""
    (first, of_first), (second, of_second) = (np.unique(ids, return_counts=True) for ids in (inside, outside))
    known = np.union1d(first, second)
    times_in, times_out = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
    times_in[np.searchsorted(known, first)] = of_first
    times_out[np.searchsorted(known, second)] = of_second
    return known, times_in, times_out


@dataclass(frozen=True)
class _Numbering:
    """One whole number for each record, so that numpy can sort and compare them. Their order is that of the keys."""

    ids: tuple[Ids, Ids]
    keys: pa.Array
    seqs: Ids | None
    """The sequence numbers in order, if they are too far apart to be counted from the lowest."""
    lowest: int
    span: int

    @staticmethod
    def of(went_in: pa.Table, came_out: pa.Table) -> "_Numbering":
        sizes = len(went_in)
        coded = pa.chunked_array([*went_in[KEY].chunks, *came_out[KEY].chunks], pa.large_string()).combine_chunks()
        coded = coded.dictionary_encode(null_encoding="encode")
        order = pc.sort_indices(coded.dictionary).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        codes = ranks[coded.indices.to_numpy(zero_copy_only=False)]
        seqs = np.concatenate([table[SEQ].to_numpy() for table in (went_in, came_out)])
        lowest, highest = (int(seqs.min()), int(seqs.max())) if len(seqs) else (0, 0)
        span = highest - lowest + 1
        distinct: Ids | None = None
        if span * max(1, len(order)) < IDS_MAX:
            places = seqs - lowest
        else:
            distinct, places = np.unique(seqs, return_inverse=True)
            span = len(distinct)
        ids = codes * span + places
        return _Numbering((ids[:sizes], ids[sizes:]), coded.dictionary.take(pa.array(order)), distinct, lowest, span)

    def examples(self, known: Ids, kinds: Ids, show: int) -> tuple[Example, ...]:
        """What is wrong with the first keys. Few are shown, and few numbers of each."""
        codes = known // self.span
        found = []
        for code in np.unique(codes)[:show]:
            own = codes == code
            lowest = [self._seqs(known[own & (kinds == kind)][:SHOWN_MAX]) for kind in range(3)]
            found.append(Example(self.keys[int(code)].as_py(), *lowest))
        return tuple(found)

    def _seqs(self, ids: Ids) -> tuple[int, ...]:
        places = ids % self.span
        return tuple(int(seq) for seq in (places + self.lowest if self.seqs is None else self.seqs[places]))
