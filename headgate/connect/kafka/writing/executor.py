"""What an executor does for a two-phase Kafka sink: writes a partition, or writes one anew whose transaction was lost.

One rule: every transaction carries a marker, the offset of a consumer group of its own. Whether its rows are committed
can be told from that for good, even when the id has been taken up by somebody else since.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from headgate.checksums import damage, measure
from headgate.connect.kafka.broker import BrokerClient, Partition
from headgate.connect.kafka.producer.client import Fenced
from headgate.connect.kafka.producer.transaction import TransactionWriter
from headgate.connect.kafka.writing.checks import RETENTION, may_be_forgotten
from headgate.connect.kafka.writing.names import OpenTransaction, Owned, Slot, client_options
from headgate.core.ids import Generation
from headgate.errors import BadStorage, ExternalError
from headgate.sink.partitions import Place, first_rows

PIECE_ROWS = 65_536


@dataclass(frozen=True)
class PartitionWriter:
    """Writes the rows of one partition into a transaction, and leaves it open."""

    owned: Owned
    generation: Generation
    slot: int
    token: int
    write_ahead: str | None
    """The directory for a copy of the rows, if there is to be one."""

    def __call__(self, place: Place, batches: Iterator[pa.RecordBatch]) -> str:
        """What was written, as an ``OpenTransaction``. Nothing for a partition without rows."""
        rows = first_rows(batches)
        if rows is None:
            return ""
        first = next(rows)
        slot = Slot(self.slot, place.partition)
        transactional_id = self.owned.names.transactional_id(self.generation, slot)
        path = (
            None
            if self.write_ahead is None
            else Path(self.write_ahead, f"part-{place.partition:05}-{place.task_attempt}.parquet")
        )
        try:
            with ExitStack() as stack:
                copy = None if path is None else stack.enter_context(_copy(path, first.schema))
                writer = stack.enter_context(_writer(self.owned, transactional_id))
                writer.begin()
                for batch in chain([first], rows):
                    writer.write(batch)
                    if copy is not None:
                        copy.write_batch(batch)
                _mark(writer, self.owned, transactional_id, self.token)
                pre_committed = writer.pre_commit()
        except Fenced as error:
            # Most likely a late attempt of Spark at this very partition. When the batch runs again, that is fenced.
            raise ExternalError(f"{error} ({whose(self.owned, transactional_id)})") from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise ExternalError(
                f"sink {self.owned.names.sink}: cannot stage rows: {reason}: {error.filename or path}: see that the "
                "file system is there and has room"
            ) from error
        if path is None:
            return OpenTransaction(slot, pre_committed.producer_id, pre_committed.epoch, pre_committed.rows).to_text()
        facts = measure(path, flush=True)
        numbers = (pre_committed.producer_id, pre_committed.epoch, pre_committed.rows)
        return OpenTransaction(slot, *numbers, path.name, facts.size, facts.checksum).to_text()


@dataclass(frozen=True)
class Lost:
    """A pre-committed transaction that the broker has given up, and the file in which its rows wait."""

    owned: Owned
    transactional_id: str
    token: int
    path: str
    size: int
    checksum: int | None


def write_anew(lost: Lost) -> str:
    """Write the rows of a lost transaction and commit them, once, however often this is called."""
    path = Path(lost.path)
    with _writer(lost.owned, lost.transactional_id) as writer:  # from here on nobody else writes under this id
        with BrokerClient(lost.owned.target.servers, client_options(lost.owned.target)) as client:
            marker = last_committed(lost.owned, lost.transactional_id, client)
            if marker is not None and marker >= lost.token:
                return ""
            forgotten = marker is None and path.is_file() and may_be_forgotten(client, _written_ms(path))
        if forgotten:
            raise BadStorage(
                f"kafka: transaction {lost.transactional_id} was lost at the broker or committed longer ago than "
                f"{RETENTION}, and its marker is gone: compare the topic with {path}; then remove the file and begin "
                "the job anew, or touch it to have its rows written"
            )
        wrong = damage(path, lost.size, lost.checksum) if path.is_file() else f"{path} is gone"
        if wrong:
            raise BadStorage(
                f"kafka: transaction {lost.transactional_id} was lost at the broker, and its rows cannot be written "
                f"anew: {wrong}: put it back from a copy"
            )
        writer.begin()
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=PIECE_ROWS):
                writer.write(batch)
        _mark(writer, lost.owned, lost.transactional_id, lost.token)
        writer.commit()
    with BrokerClient(lost.owned.target.servers, client_options(lost.owned.target)) as client:
        client.settle(lost.transactional_id)
    return ""


def is_committed(owned: Owned, transactional_id: str, token: int, client: BrokerClient) -> bool:
    """Whether the marker says that a use of an id was committed.

    The next use may be open, and may stay so until this one is answered. It is begun when this one is over, and markers
    only grow: so a marker that has come far enough tells all, whatever is open. Only one that has not is waited for.
    """
    for stable in (False, True):
        marker = last_committed(owned, transactional_id, client, stable=stable)
        if marker is not None and marker >= token:
            return True
    return False


def last_committed(owned: Owned, transactional_id: str, client: BrokerClient, *, stable: bool = True) -> int | None:
    """The token of the last use of an id that was committed. None if there is none, or it is forgotten."""
    group, partition = owned.names.marker_group(transactional_id), Partition(owned.target.topic, 0)
    stored = client.fetch_offsets(group, [partition], stable=stable).get(partition)
    return None if stored is None else stored.offset


def whose(owned: Owned, transactional_id: str) -> str:
    """Who has an id now, as far as the broker tells."""
    try:
        with BrokerClient(owned.target.servers, client_options(owned.target)) as client:
            found = client.describe([transactional_id]).get(transactional_id)
    except ExternalError:
        found = None
    return "nobody has it now" if found is None else f"producer {found.producer_id}, epoch {found.epoch}, has it now"


def _writer(owned: Owned, transactional_id: str) -> TransactionWriter:
    target = owned.target
    options = target.producer_options
    return TransactionWriter.open(target.servers, options, transactional_id, target.timeout_ms, target.topic)


def _mark(writer: TransactionWriter, owned: Owned, transactional_id: str, token: int) -> None:
    writer.send_marker(owned.names.marker_group(transactional_id), owned.target.topic, 0, token)


def _copy(path: Path, schema: pa.Schema) -> parquet.ParquetWriter:
    return parquet.ParquetWriter(path, schema, compression="lz4", use_dictionary=False, write_statistics=False)


def _written_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000
