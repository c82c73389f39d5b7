"""What users ask of a running job, and what became of it.

One rule: a request becomes a fact for the core, and what the core tells is the answer; nothing is decided here. Nobody
waits for ever: every request has its time, and a process that ends answers whoever still waits.

A request that was taken in is an *operation*. Whoever began it waits for it here, or comes back later and asks by its
name. How requests come in (over HTTP, or from this very process) is no matter of this module.

A savepoint that is to be written to another place as well has a thread of its own for that: the place is claimed before
the core hears of the request, and written to once the core says that the savepoint is complete.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headgate.core.effects import Effect, Notify, Outcome
from headgate.core.events import (
    CancelAsked,
    CheckpointAsked,
    DeleteAsked,
    Event,
    HoldAsked,
    SavepointAsked,
    UserFact,
)
from headgate.core.ids import CheckpointId, RequestId, SinkId
from headgate.errors import ExternalError, UserError
from headgate.run import keeping
from headgate.run.decisions import ABANDON, decision
from headgate.run.exporting import Export, Exports
from headgate.run.savepoints import path_of

WAITING_MAX = 32
"""How many operations may be under way at once."""
REMEMBERED_MAX = 256
"""How many operations that are over are remembered."""
REQUEST_S = 600.0
"""A user who says nothing else waits this long for a checkpoint, a savepoint or the end of a job."""
TIMEOUT_MAX_S = 31_536_000.0
"""Nobody waits longer than a year, and clocks do not overflow."""
LAST_WORDS_S = 2.0
"""A process that ends waits this long for those who wait for its answer to take it."""
ENDING = ("stop", "cancel")
"""Requests that are answered when the job is over, so that whoever asked may start it again."""
ABOUT_ONE = ("hold", "release", "delete", "label")
"""Requests about one checkpoint."""
SAVING = ("savepoint", "stop")
"""Requests that leave a savepoint."""
COMMANDS = ("checkpoint", "savepoint", *ENDING, *ABOUT_ONE)


@dataclass(frozen=True)
class Reply:
    """What became of a request."""

    outcome: Outcome
    text: str
    checkpoint: int | None = None
    location: str | None = None
    """Where a savepoint is: from here the place that the user named, if there is one; over HTTP always."""


@dataclass(frozen=True)
class Operation:
    """A request that was taken in, as it stands. A new value takes its place when something has changed."""

    name: str
    command: str
    checkpoint: int | None
    """The one that it is about, for some commands."""
    begun_ms: int
    timeout_s: float
    deadline_s: float
    notices: int = 0
    """How often the core has said something new of it."""
    text: str = ""
    """What it said last."""
    decided: Reply | None = None
    """The core's answer, which is not the last word before the job is over."""
    reply: Reply | None = None
    """What became of it, once it is over."""
    ended_ms: int | None = None
    target: str | None = None
    """Where a savepoint is to be written as well."""
    drain: bool = False
    """Whether sources are to end before a stop."""


class TooManyRequests(Exception):
    """A request cannot be taken in now."""


class RequestConflict(Exception):
    """A request contradicts another one, or the job's end."""


class Requests:
    """The requests to one job. ``submit`` hands a fact to the core. May be used from any thread."""

    def __init__(
        self, submit: Callable[[Event], None], note: Callable[[str, Mapping[str, Any]], None] = lambda *_: None
    ) -> None:
        """Nobody has asked for anything. ``note`` writes into the history what a user decided."""
        self._submit = submit
        self._note = note
        self._exports: Exports | None = None
        self._claimed: dict[str, Export] = {}
        """Places that savepoints of operations are to be written to."""
        self._writing: set[str] = set()
        """Operations that claim such a place, or write to it."""
        self._given_up = threading.Event()
        self._operations: dict[str, Operation] = {}
        self._untaken: set[str] = set()
        """Operations that the end of the process has decided, and whose answer nobody has taken yet."""
        self._undecided: dict[str, Mapping[str, Any]] = {}
        """What users decide, until the core has accepted it."""
        self._ending = False
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], None]] = []

    # -- asking ------------------------------------------------------------------------------------------------------

    def begin(self, command: str, *, name: str | None = None, timeout_s: float = REQUEST_S, **arguments: Any) -> str:
        """Hand a request to the core. Returns the name by which it is asked for; the same name is the same request.

        ``TooManyRequests`` if too many wait already, ``RequestConflict`` if the process is ending or the name means
        something else, and ``ValueError`` if there is no such request.
        """
        name = name or secrets.token_hex(8)
        timeout_s = min(timeout_s, TIMEOUT_MAX_S)
        checkpoint, target = arguments.get("checkpoint"), arguments.get("target")
        drain = arguments.get("drain") is True
        fact = _fact(RequestId(f"control-{name}"), command, arguments)
        label = arguments.get("label") if command == "label" and isinstance(checkpoint, int) and self._exports else None
        if fact is None and not isinstance(label, str):
            raise ValueError(f"{command} refused: there is no such request")
        if drain and command != "stop":
            raise ValueError(f"{command} refused: only a stop can drain")
        if target is not None and (command not in SAVING or self._exports is None):
            raise ValueError(f"{command} refused: it has no target directory")
        with self._changed:
            known = self._operations.get(name)
            if known is not None:
                if (known.command, known.checkpoint, known.target, known.drain) != (command, checkpoint, target, drain):
                    raise RequestConflict(f"{command} refused: {name} names another request, a {known.command}")
                return name
            if self._ending:
                raise RequestConflict(f"{command} refused: the job's process is ending")
            self._expire()
            if sum(each.reply is None for each in self._operations.values()) >= WAITING_MAX:
                raise TooManyRequests(f"{command} refused: {WAITING_MAX} requests wait already")
            self._operations[name] = Operation(
                name,
                command,
                checkpoint,
                time.time_ns() // 1_000_000,
                timeout_s,
                time.monotonic() + timeout_s,
                target=target,
                drain=drain,
            )
            if target is not None or fact is None:
                self._writing.add(name)
            if isinstance(fact, CancelAsked) and fact.abandon:
                reason = str(arguments.get("reason") or "")
                self._undecided[name] = decision(ABANDON, fact.abandon, reason, command)
        if fact is None:
            self._in_a_thread(name, self._label, name, CheckpointId(checkpoint or 0), label)
        elif target is None:
            self._submit(fact)
        else:
            self._in_a_thread(name, self._claim, name, fact, target)
        return name

    def ask(
        self,
        command: str,
        *,
        timeout_s: float = REQUEST_S,
        notice: Callable[[str], None] = lambda _: None,
        **arguments: Any,
    ) -> Reply:
        """The same, and wait for what becomes of it. ``notice`` hears meanwhile what it takes."""
        try:
            name = self.begin(command, timeout_s=timeout_s, **arguments)
        except (ValueError, TooManyRequests, RequestConflict) as error:
            return Reply(Outcome.REFUSED, str(error))
        heard = 0
        while True:
            operation = self.wait(name, TIMEOUT_MAX_S, after=heard)
            if operation is None:  # Hundreds have ended since.
                return Reply(Outcome.FAILED, f"{command}: what became of it is not known any more")
            if operation.reply is not None:
                self.took(name)
                return operation.reply
            heard = operation.notices
            notice(operation.text)

    # -- what became of it -------------------------------------------------------------------------------------------

    def find(self, name: str) -> Operation | None:
        """An operation as it stands. None if nobody remembers it."""
        with self._changed:
            return self._look(name)

    def all(self) -> list[Operation]:
        """All that are remembered, the newest first."""
        with self._changed:
            self._expire()
            return list(reversed(self._operations.values()))

    def wait(self, name: str, wait_s: float, *, after: int) -> Operation | None:
        """An operation, when it is over or has had more than ``after`` notices, or when this time is over."""
        until_s = time.monotonic() + wait_s
        with self._changed:
            while True:
                operation = self._look(name)
                if operation is None or operation.reply is not None or operation.notices > after:
                    return operation
                now_s = time.monotonic()
                if now_s >= until_s:
                    return operation
                self._changed.wait(min(until_s, operation.deadline_s) - now_s)

    def listen(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Have somebody told whenever an operation has changed. Returns how to end that."""
        with self._changed:
            self._listeners.append(changed)

        def leave() -> None:
            with self._changed:
                self._listeners.remove(changed)

        return leave

    # -- the job's side ----------------------------------------------------------------------------------------------

    def answer(self, tell: Notify) -> None:
        """What the core tells, to whoever asked. What nobody waits for is let go."""
        if tell.request is None:
            return
        with self._changed:
            operation = self._operations.get(tell.request.removeprefix("control-"))
            if operation is None or operation.reply is not None or operation.decided is not None:
                return
            if tell.outcome is Outcome.NOTICE:
                if tell.text != operation.text:
                    self._put(replace(operation, text=tell.text, notices=operation.notices + 1))
                return
            reply = Reply(tell.outcome, tell.text, tell.checkpoint)
            export = self._claimed.pop(operation.name, None)
            if export is not None:
                self._writing.add(operation.name)
                note = f"{reply.text}; writing it to {operation.target}"
                if reply.outcome is Outcome.DONE:
                    self._put(replace(operation, decided=reply, text=note, notices=operation.notices + 1))
                else:
                    self._over(operation, reply)
                self._in_a_thread(operation.name, self._export, operation.name, export, reply)
                return
            if tell.outcome is Outcome.DONE and operation.command in ENDING and not self._ending:
                self._put(replace(operation, decided=reply))
            else:
                self._over(operation, reply)

    def taken(self, asked: CancelAsked, orders: Iterable[Effect]) -> None:
        """What the core makes of a request. What its user decided is noted, unless it is refused."""
        told = [each for each in orders if isinstance(each, Notify) and each.request == asked.request]
        with self._changed:
            decided = self._undecided.pop(asked.request.removeprefix("control-"), None)
        if decided is not None and all(each.outcome is not Outcome.REFUSED for each in told):
            self._note("decision", decided)

    def write_to(self, exports: Exports) -> None:
        """From here on savepoints can be written to other places."""
        self._exports = exports

    def close(self, *, at_once: bool = False) -> None:
        """The job is over: answer whoever still waits.

        Savepoints that are being written elsewhere are waited for, as long as whoever asked would; not ``at_once``.
        """
        with self._changed:
            self._ending = True
            if at_once:
                self._given_up.set()
            self._finish_writing()
            for operation in [each for each in self._operations.values() if each.reply is None]:
                self._untaken.add(operation.name)
                self._over(operation, operation.decided or Reply(Outcome.FAILED, "the job's process is ending"))

    def say_goodbye(self) -> None:
        """Wait until those who were answered by the end of the process have taken their answers, for a moment."""
        with self._changed:
            self._changed.wait_for(lambda: not self._untaken, timeout=LAST_WORDS_S)

    def took(self, name: str) -> None:
        """Somebody has heard what became of an operation."""
        with self._changed:
            self._untaken.discard(name)
            self._changed.notify_all()

    # -- savepoints in other places ----------------------------------------------------------------------------------

    def _in_a_thread(self, name: str, work: Callable[..., None], *arguments: Any) -> None:
        """Do something that takes its time. It has ended when the name is no longer in ``_writing``."""

        def run() -> None:
            try:
                work(*arguments)
            finally:
                with self._changed:
                    self._writing.discard(name)
                    self._changed.notify_all()

        threading.Thread(target=run, name=f"headgate-export-{name}", daemon=True).start()

    def _claim(self, name: str, fact: UserFact, target: str) -> None:
        """Claim the place; only then does the core hear of the request."""
        assert self._exports is not None, "it was asked for"
        try:
            export = self._exports.claim(target)
        except Exception as error:  # noqa: BLE001 - whatever it is, the place cannot be used
            outcome = Outcome.FAILED if isinstance(error, ExternalError) else Outcome.REFUSED
            self._decided(name, Reply(outcome, f"no savepoint was taken: {_line(error)}"))
            return
        with self._changed:
            operation = self._look(name)
            waits = not self._ending and operation is not None and operation.reply is None
            if waits:
                self._claimed[name] = export
        if waits:
            self._submit(fact)
        else:
            export.abandon()

    def _label(self, name: str, savepoint: CheckpointId, label: str) -> None:
        """Write down what a user calls a savepoint. It decides nothing, so the core need not hear of it."""
        assert self._exports is not None, "it was asked for"
        try:
            reply = Reply(Outcome.DONE, keeping.label(self._exports.store, savepoint, label), savepoint)
        except Exception as error:  # noqa: BLE001 - whatever it is, the label is as it was
            outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.FAILED
            reply = Reply(outcome, _line(error), savepoint)
        self._decided(name, reply)

    def _decided(self, name: str, reply: Reply) -> None:
        with self._changed:
            operation = self._look(name)
            if operation is not None and operation.reply is None:
                self._over(operation, reply)

    def _export(self, name: str, export: Export, reply: Reply) -> None:
        """Write a savepoint that is complete. One that will not be gives its place back."""
        if reply.outcome is not Outcome.DONE or reply.checkpoint is None:
            export.abandon()
            return
        savepoint = CheckpointId(reply.checkpoint)
        try:
            export.write(savepoint, self._given_up)
        except Exception as error:  # noqa: BLE001 - whatever it is, the savepoint is only where it was before
            assert self._exports is not None, "it was asked for"
            own = path_of(self._exports.store.uri, savepoint)
            text = f"{reply.text} at {own}, but it could not be written to {export.location}: {_line(error)}"
            reply = replace(reply, outcome=Outcome.FAILED, text=text)
        else:
            reply = replace(reply, location=export.location)
        with self._changed:
            operation = self._look(name)
            if operation is None or operation.reply is not None:
                return
            if operation.command in ENDING and not self._ending:
                self._put(replace(operation, decided=reply, text=reply.text, notices=operation.notices + 1))
                return
            if self._ending:
                self._untaken.add(name)
            self._over(operation, reply)

    def _finish_writing(self) -> None:
        """Wait for what is being written, until its time is over, and give back what is claimed."""
        while self._writing and not self._given_up.is_set():
            deadlines = [each.deadline_s for each in self._operations.values() if each.name in self._writing]
            left_s = max(deadlines, default=0.0) - time.monotonic()
            if left_s <= 0:
                break
            self._changed.wait(left_s)
        self._given_up.set()
        for name in tuple(self._claimed):
            self._writing.add(name)
            self._in_a_thread(name, self._claimed.pop(name).abandon)
        self._changed.wait_for(lambda: not self._writing, timeout=LAST_WORDS_S)

    # -- helpers; all of them hold the lock --------------------------------------------------------------------------

    def _look(self, name: str) -> Operation | None:
        self._expire()
        return self._operations.get(name)

    def _expire(self) -> None:
        """Those whose time is over have failed, as far as anybody can tell."""
        now_s = time.monotonic()
        for each in [each for each in self._operations.values() if each.reply is None and each.deadline_s <= now_s]:
            late = f"{each.command}: no answer within {each.timeout_s:g} s; it may still come"
            self._over(each, Reply(Outcome.FAILED, f"{late}{'; ' * bool(each.text)}{each.text}"))

    def _over(self, operation: Operation, reply: Reply) -> None:
        over = replace(operation, reply=reply, text=reply.text, ended_ms=time.time_ns() // 1_000_000)
        self._put(over)
        self._undecided.pop(operation.name, None)
        ended = [each.name for each in self._operations.values() if each.reply is not None]
        for name in ended[:-REMEMBERED_MAX]:
            del self._operations[name]

    def _put(self, operation: Operation) -> None:
        self._operations[operation.name] = operation
        self._changed.notify_all()
        for changed in self._listeners:
            changed()


def _fact(name: RequestId, command: str, arguments: Mapping[str, Any]) -> UserFact | None:
    """What the core is told. A job stops in good order in one way only: with a savepoint."""
    checkpoint = arguments.get("checkpoint")
    match command:
        case "checkpoint":
            return CheckpointAsked(name)
        case "savepoint":
            return SavepointAsked(name)
        case "stop":
            return SavepointAsked(name, stop=True, drain=arguments.get("drain") is True)
        case "cancel":
            sinks = arguments.get("abandon") or ()
            return CancelAsked(name, tuple(SinkId(sink) for sink in sinks)) if _is_names(sinks) else None
        case "delete" if isinstance(checkpoint, int):
            return DeleteAsked(name, CheckpointId(checkpoint))
        case "hold" | "release" if isinstance(checkpoint, int):
            return HoldAsked(name, CheckpointId(checkpoint), held=command == "hold")
        case _:
            return None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
