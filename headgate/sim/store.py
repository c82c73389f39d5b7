"""The store of records, with all the ways in which a write can go wrong.

One rule: a create is conditional and atomic: whoever comes first has the id. Everything else is open: an answer may be
lost, a write that failed may have landed, and one that failed may still land long after.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from headgate.core import checkpoint_log
from headgate.core.records import EpochRecord, Record


class Clock(Protocol):
    """What the store needs of the world."""

    rng: Random

    def at(self, delay_ms: int, act: Callable[..., None], *args: object) -> None:
        """Do something later."""


class SimulatedStore:
    """The checkpoint log, the holds and the savepoints' copies."""

    def __init__(self, clock: Clock, on_create: Callable[[Record], None]) -> None:
        """``on_create`` sees each record at the moment it lands."""
        self.clock = clock
        self.on_create = on_create
        self.records: dict[int, Record] = {}
        self.ever: dict[int, Record] = {}
        self.held: dict[int, None] = {}
        self.copied: dict[int, None] = {}
        self.trouble = 0
        self.fold: tuple[EpochRecord | None, frozenset[int]] = (None, frozenset())

    def create(
        self,
        record: Record,
        created: Callable[[Record], None],
        taken: Callable[[Record], None],
        unclear: Callable[[Record], None],
    ) -> None:
        """Try to create a record; one of the three is called, or none."""
        rng = self.clock.rng
        latency = 1 + int(rng.random() * 6)
        if not self.trouble or rng.random() > 0.2 * self.trouble:
            self.clock.at(latency, self._land, record, created, taken)
            return
        way = rng.random()
        if way < 0.2:
            self.clock.at(latency, unclear, record)
        elif way < 0.4:
            self.clock.at(latency, self._land, record, _ignore, _ignore)
            self.clock.at(latency + int(rng.random() * 4), unclear, record)
        elif way < 0.6:
            self.clock.at(latency, unclear, record)
            self.clock.at(latency + int(rng.random() * 300), self._land, record, _ignore, _ignore)
        elif way < 0.75:
            self.clock.at(latency, self._land, record, _ignore, _ignore)
        else:
            self.clock.at(latency + int(rng.random() * 500), self._land, record, created, taken)

    def _land(self, record: Record, created: Callable[[Record], None], taken: Callable[[Record], None]) -> None:
        there = self.records.get(record.id)
        if there is not None:
            taken(there)
            return
        self.records[record.id] = record
        if record.id not in self.ever:
            self.ever[record.id] = record
            self.on_create(record)
        created(record)

    def newest(self) -> Record:
        """The record with the highest id."""
        return self.records[max(self.records)]

    def read(self, leader: str) -> tuple[Record, ...]:
        """The records that matter, in the order of ids: without those that an epoch record has made superfluous.

        Who finds the own epoch record last writes down which those are. That may get lost, or come late, over somebody
        else's.
        """
        epoch_record, needed = self.fold
        there = epoch_record is not None and self.records.get(epoch_record.id) is epoch_record
        records = tuple(
            self.records[number]
            for number in sorted(self.records)
            if not there or epoch_record is None or number >= epoch_record.id or number in needed
        )
        if records and isinstance(records[-1], EpochRecord) and records[-1].leader == leader:
            late_ms = int(self.clock.rng.random() * 400 * self.trouble)
            self.clock.at(late_ms, self._fold, records[-1], frozenset(checkpoint_log.needed(records)))
        return records

    def _fold(self, epoch_record: EpochRecord, needed: frozenset[int]) -> None:
        self.fold = (epoch_record, needed)


def _ignore(_: Record) -> None:
    """Nobody hears of it."""
