"""Whether Spark takes the state of a checkpoint for that of a task as it is now.

One rule: Spark says so itself. Its own planner gets the task's query, a copy of the small files that describe the
state, and the settings that the query began with, as for the first batch after a restart. Only what it is known to
refuse for good is an answer; whatever else goes wrong here is left to the run.
"""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from headgate import layout
from headgate.core.ids import Batch, TaskId
from headgate.core.records import TaskSnapshot
from headgate.job.analyse import LOADED, Analysis, children, evaluate, plan_of, stateful_nodes
from headgate.job.node import Node, NodeKind
from headgate.job.plan import Plan, PlannedTask
from headgate.run import declared
from headgate.snapshot.rebuild import INSIDE
from headgate.task.logs import logger

ReadFile = Callable[[str], bytes]

_STREAMING = "org.apache.spark.sql.execution.streaming"
_WRITER = f"{_STREAMING}.operators.stateful.StateStoreWriter"
_OTHER_OPERATOR = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_SCHEMAS = {
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": ("key", "storedKeySchema", "newKeySchema"),
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": ("value", "storedValueSchema", "newValueSchema"),
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION": ("value", "oldValueSchema", "newValueSchema"),
}
"""How Spark calls a state that does not fit: which half of its rows, and where it says what was and what is."""
_OTHERS = {
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE": "its state {stateVarName} was a {oldType} and is now a {newType}",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART": "its {configName} was {oldConfig} and is now {newConfig}",
    "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED": (
        "its state {colFamilyName} has changed its type {numSchemaEvolutions} times, and Spark keeps up with "
        "{maxSchemaEvolutions}"
    ),
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED": (
        "its states have changed {numStateSchemaFiles} times (now {addedColumnFamilies} new and "
        "{removedColumnFamilies} gone), and Spark keeps up with {maxStateSchemaFiles}"
    ),
}
_KINDS = {
    "stateStoreSave": "an aggregation",
    "sessionWindowStateStoreSaveExec": "an aggregation by session",
    "dedupe": "a deduplication",
    "dedupeWithinWatermark": "a deduplication within the watermark",
    "symmetricHashJoin": "a join",
    "globalLimit": "a limit",
    "flatMapGroupsWithState": "groups with state",
    "applyInPandasWithState": "groups with state (pandas)",
    "transformWithStateInPySparkExec": "a processor",
    "transformWithStateInPandasExec": "a processor (pandas)",
}
_TYPES = {"Long": "bigint", "Integer": "int", "Short": "smallint", "Byte": "tinyint"}


class Change(NamedTuple):
    """What is no longer as it was."""

    uid: str | None
    """The operator; None: it cannot be told which of the task's."""
    what: str


class StateSchemas:
    """Asks Spark about the tasks of a job."""

    def __init__(self, spark: SparkSession, plan: Plan, known: Mapping[str, Analysis]) -> None:
        """Nothing is asked yet."""
        self._spark = spark
        self._plan = plan
        self._known = known

    def refused(self, task: TaskId, before: TaskSnapshot, read: ReadFile) -> str | None:
        """Why Spark would not go on with the state of a snapshot. ``read`` reads a file that it names."""
        planned = next(each for each in self._plan.tasks if each.id == task)
        try:
            change = self._change(planned, before, read)
        except Exception as error:  # noqa: BLE001 - whatever it is, Spark says so again if it matters
            logger.debug("task %s: whether its state fits cannot be told before it runs: %s", task, error)
            return None
        if change is None:
            return None
        who = change.uid or ", ".join(planned.stateful)
        return (
            f"the state of operator {who} of task {task} has changed: {change.what}. Put it back as it was, or give "
            "every source and operator of the task a new uid and use --allow-non-restored-state, so that all of it "
            "begins empty, or restore a checkpoint that fits (--from N)"
        )

    def _change(self, task: PlannedTask, before: TaskSnapshot, read: ReadFile) -> Change | None:
        with tempfile.TemporaryDirectory(prefix="headgate-schema-") as scratch:
            described = _Described.copy(Path(scratch), before, read)
            if described is None:
                return None
            if self._as_before(task, described):
                return None
            frames = self._frames(task)
            query = _Query(self._spark, plan_of(frames[task.trunk[-1].uid]), task.output_mode, described)
            try:
                query.plan(first=True).executedPlan()
            except CapturedException as error:
                condition, about = error.getCondition() or "", error.getMessageParameters() or {}
            else:
                return None
            if condition not in (_OTHER_OPERATOR, *_OTHERS, *_SCHEMAS):
                return None
            try:
                return _name(query, _owners(task, frames), condition, about)
            except Exception as error:  # noqa: BLE001 - the answer stands, whether or not it can be told in our words
                logger.debug("task %s: what does not fit cannot be named: %s", task.id, error)
                return Change(None, f"{condition} {' '.join(f'{key}: {value}' for key, value in about.items())}")

    def _as_before(self, task: PlannedTask, described: "_Described") -> bool:
        """Whether all state of a task is that of one processor, which asks for what it had."""
        keeping = [node for node in task.trunk if node.uid in task.stateful]
        if [node.kind for node in keeping] != [NodeKind.PROCESS]:
            return False
        try:
            (node,) = keeping
            assert node.key is not None
            came = self._known[node.inputs[0]].schema
            key = StructType([came[name] for name in ([node.key] if isinstance(node.key, str) else node.key)])
            return declared.as_before(node, key, *described.processor())
        except (OSError, ValueError, LookupError, TypeError):
            return False

    def _frames(self, task: PlannedTask) -> dict[str, DataFrame]:
        """The output of every node of a task's query, with stand-ins for the channels it reads."""
        end = {each.id: each.trunk[-1].uid for each in self._plan.tasks}
        loaded = ((node.uid, self._known[node.uid].loaded) for node in task.trunk)
        given = {(uid, LOADED): frame for uid, frame in loaded if frame is not None}
        for channel in self._plan.channels:
            if channel.downstream == task.id:
                given[channel.consumer, channel.index] = self._stand_in(self._known[end[channel.upstream]])
        frames: dict[str, DataFrame] = {}
        for node in task.trunk:
            frames[node.uid] = evaluate([node], given, frames)
        return frames

    def _stand_in(self, output: Analysis) -> DataFrame:
        """A stream with the very columns of a channel, about whose rows the optimiser knows nothing."""
        fields = [StructField(field.name, field.dataType, field.nullable) for field in output.schema.fields]
        session: Any = self._spark._jsparkSession  # noqa: SLF001 - no other way to name columns and nothing else
        nothing = self._spark._jsc.sc().emptyRDD(_object("scala.reflect.ClassTag").Any())  # noqa: SLF001 - as above
        schema = session.parseDataType(StructType(fields).json())
        frame = DataFrame(session.internalCreateDataFrame(nothing, schema, True), self._spark)
        if output.watermark is None:
            return frame
        column, delay_ms = output.watermark
        return frame.withWatermark(column, f"{delay_ms} milliseconds")


class _Described(NamedTuple):
    """What describes the state of a query, as a checkpoint directory of Spark's."""

    place: Path
    batch: int
    metadata: str
    """What the offset log says of the query: its settings, and how far its time has come."""

    @classmethod
    def copy(cls, place: Path, snapshot: TaskSnapshot, read: ReadFile) -> "_Described | None":
        """Copy it out of a snapshot. None if nothing is described there."""
        log = layout.offsets_among(snapshot.files, snapshot.batch)
        names = [name for name in snapshot.files if layout.describes_state(INSIDE.sub("", name))]
        if log is None or not names:
            return None
        for name in (log, *names):
            target = place / INSIDE.sub("", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read(name))
        layout.relocate(place)
        layout.announce(place, Batch(snapshot.batch + 1))
        return cls(place, snapshot.batch, json.dumps(layout.read_offsets(place, snapshot.batch).metadata))

    def processor(self, number: int = 0) -> tuple[dict[str, Any], declared.DeclaredSchemas]:
        """What is written down of an operator that is a processor: its properties, and what its states look like."""
        path = max((self.place / f"state/{number}/_metadata/v2").glob("[0-9]*"), key=lambda path: int(path.name))
        about = json.loads(path.read_text(encoding="utf-8").split("\n", 1)[1])
        (store,) = about["stateStoreInfo"]
        last = Path(store["stateSchemaFilePaths"][-1].removeprefix("file:"))
        schemas = {
            name: (StructType.fromJson(json.loads(key)), StructType.fromJson(json.loads(value)))
            for name, (key, value) in layout.parse_schemas(last.read_bytes()).items()
        }
        return json.loads(about["operatorPropertiesJson"]), schemas

    def operators(self) -> dict[int, str]:
        """The name of each operator that had state, by its number."""
        found = {}
        for path in sorted((self.place / "state").glob("*/_metadata/**/*")):
            if path.is_file() and not path.name.startswith("."):
                about = json.loads(path.read_text(encoding="utf-8").split("\n", 1)[1])["operatorInfo"]
                found[int(about["operatorId"])] = str(about["operatorName"])
        return found


class _Query:
    """A task's query, as Spark plans it."""

    def __init__(self, spark: SparkSession, analysed: Any, output_mode: str, described: _Described) -> None:
        self._analysed = analysed
        self.described = described
        modes = _class("org.apache.spark.sql.streaming.OutputMode")
        self._mode = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[output_mode]()
        offsets = _object(f"{_STREAMING}.checkpointing.OffsetSeqMetadata")
        self._metadata = offsets.apply(described.metadata)
        self._session: Any = spark._jsparkSession.cloneSession()  # noqa: SLF001 - as Spark does for each query
        self._conf = self._session.sessionState().conf()
        offsets.setSessionConf(self._metadata, self._conf)
        for key in ("adaptive.enabled", "cbo.enabled", "requireAllClusterKeysForDistribution"):
            self._conf.setConfString(f"spark.sql.{key}", "false")

    def plan(self, *, first: bool) -> Any:
        """The execution of the next batch, as the ``first`` after a restart or not. It is never executed."""
        name = f"{_STREAMING}.runtime.IncrementalExecution"
        defaults = _object(name)
        query = _class("java.util.UUID").randomUUID()
        return _class(name)(
            self._session,
            self._analysed,
            self._mode,
            f"file:{self.described.place.absolute()}/state",
            query,
            query,
            self.described.batch + 1,
            _class("scala.Option").empty(),
            self._metadata,
            _object(f"{_STREAMING}.runtime.WatermarkPropagator").noop(),
            first,
            *(getattr(defaults, f"$lessinit$greater$default${index}")() for index in range(12, 17)),
        )

    def writers(self) -> list[Any]:
        """The operators that keep state, in the order in which Spark numbers them."""
        gateway = SparkContext._gateway  # noqa: SLF001 - what Spark's own Python uses
        pending, found = [self.plan(first=False).executedPlan()], []
        while pending:
            node = pending.pop()
            pending += reversed(children(node))
            if is_instance_of(gateway, node, _WRITER):
                found.append(node)
        return found

    def refusal(self, writer: Any) -> Mapping[str, str] | None:
        """What Spark says against the state of one operator."""
        version = 3 if _is_processor(writer) else 2
        hadoop = self._session.sessionState().newHadoopConf()
        try:
            writer.validateAndMaybeEvolveStateSchema(hadoop, self.described.batch + 1, version)
        except CapturedException as error:
            return error.getMessageParameters()
        return None


def _is_processor(writer: Any) -> bool:
    return str(writer.shortName()).startswith("transformWithState")


def _owners(task: PlannedTask, frames: Mapping[str, DataFrame]) -> list[str]:
    """The uid for each operator with state, in the order in which Spark numbers them: from the query's end."""
    nodes = {node.uid: node for node in task.trunk}

    def count(uid: str) -> int:
        return len(list(stateful_nodes(frames[uid], task.output_mode)))

    def visit(node: Node) -> Iterator[str]:
        below = [uid for uid in node.inputs if uid in nodes]
        yield from [node.uid] * (count(node.uid) - sum(map(count, below)))
        for uid in below:
            yield from visit(nodes[uid])

    return list(visit(task.trunk[-1]))


def _owner(owners: list[str], of: int, number: int) -> str | None:
    """The uid of an operator by its number, if as many are known as there are."""
    return owners[number] if len(owners) == of else None


def _name(query: _Query, owners: list[str], condition: str, about: Mapping[str, str]) -> Change:
    """What Spark refuses, and the operator that it is."""
    if condition in _OTHERS:
        return Change(owners[0] if len(set(owners)) == 1 else None, _OTHERS[condition].format(**about))
    writers = query.writers()
    if condition == _OTHER_OPERATOR:
        return _other_operator(query.described.operators(), [str(writer.shortName()) for writer in writers], owners)
    half, was, now = _SCHEMAS[condition]
    for number, writer in enumerate(writers):
        if query.refusal(writer) == about:
            had = query.described.processor(number)[1] if _is_processor(writer) else None
            variable = _variable(writer, half, about[now], had) if had is not None else ""
            owner = _owner(owners, len(writers), number)
            return Change(owner, "; ".join(differences(half, about[was], about[now], variable)))
    return Change(None, "; ".join(differences(half, about[was], about[now])))


def _other_operator(had: Mapping[int, str], names: list[str], owners: list[str]) -> Change:
    has = dict(enumerate(names))
    number = next(number for number in sorted({**had, **has}) if had.get(number) != has.get(number))
    was, now = (_KINDS.get(them.get(number, ""), them.get(number, "not there")) for them in (had, has))
    return Change(
        _owner(owners, len(names), number) if len(had) == len(has) else None, f"it was {was} and is now {now}"
    )


def _variable(writer: Any, half: str, now: str, had: declared.DeclaredSchemas) -> str:
    """The state of a processor that has this schema now, and had another."""
    families = writer.getColFamilySchemas(False).values().toSeq()
    found = []
    for index in range(families.size()):
        one = families.apply(index)
        name, columns = str(one.colFamilyName()), one.keySchema() if half == "key" else one.valueSchema()
        before = had[name][half != "key"] if name in had else None
        if columns.toString() == now and before != StructType.fromJson(json.loads(columns.json())):
            found.append(name)
    return " or ".join(sorted(name for name in found if not name.startswith(declared.INTERNAL)))


def differences(half: str, was: str, now: str, variable: str = "") -> list[str]:
    """In which columns two schemas differ, as Spark prints them."""
    before, after = _columns(was), _columns(now)
    if before is None or after is None:
        return [f"the {half} was {was} and is now {now}"]
    found = []
    of = f" of state {variable}" if variable else ""
    place = " of its key" if half == "key" else of
    for old, new in zip_longest(before, after):
        if old is None:
            found.append(f"column {new[0]}{place} ({_type(new[1])}) is new")
        elif new is None:
            found.append(f"column {old[0]}{place} ({_type(old[1])}) is gone")
        elif old[1] != new[1]:
            called = old[0] if old[0] == new[0] else f"{old[0]} (now {new[0]})"
            found.append(f"column {called}{place} was {_type(old[1])} and is now {_type(new[1])}")
        elif (old[2], new[2]) == ("false", "true"):
            found.append(f"column {new[0]}{place} could not be null and now can")
    return found or [f"the {half} was {was} and is now {now}"]


def _columns(schema: str) -> list[tuple[str, str, str]] | None:
    """Name, type and nullability of each column; None if the text cannot be taken apart."""
    inner = re.fullmatch(r"StructType\((.*)\)", schema)
    if inner is None:
        return None
    found = []
    for part in _parts(inner[1]):
        field = re.fullmatch(r"StructField\((.*)\)", part)
        pieces = _parts(field[1]) if field else []
        if len(pieces) < 3:  # A name, a type, and whether it may be null.
            return None
        found.append((",".join(pieces[:-2]), pieces[-2], pieces[-1]))
    return found


def _parts(text: str) -> list[str]:
    """Split at the commas that stand in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts if text else []


def _type(text: str) -> str:
    """A type as SQL calls it, where it is a plain one."""
    return re.sub(r"\b([A-Z][a-z]+)Type\b(?!\()", lambda match: _TYPES.get(match[1], match[1].lower()), text)


def _class(name: str) -> Any:
    return getattr(SparkContext._jvm, name)  # noqa: SLF001 - the planner has no other door


def _object(name: str) -> Any:
    """A Scala object."""
    return getattr(_class(f"{name}$"), "MODULE$")
