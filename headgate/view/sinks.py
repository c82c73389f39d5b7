"""What the sinks of one process have committed, and what they owe.

One rule: what is owed is what the core's state says at the moment of the question; what was done is counted as the core
takes it in, so that an answer that comes twice counts once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.core.commit import SinkState
from headgate.core.events import CommitFailed, Event, PreCommitFailed, SinkPreCommitted, TransactionCommitted
from headgate.core.ids import SinkId
from headgate.core.state import JobState
from headgate.view.history import Line


@dataclass
class _Counts:
    pre_commits: int = 0
    failed_pre_commits: int = 0
    pre_commits_ms: float = 0.0
    commits: int = 0
    recovered_commits: int = 0
    failed_commits: int = 0
    commits_ms: float = 0.0


class Sinks:
    """The sinks of one process."""

    def __init__(self) -> None:
        """Nothing was committed."""
        self._counts: dict[SinkId, _Counts] = {}

    def measured(self, kind: str, fields: Mapping[str, Any]) -> None:
        """A pre-commit or a commit went through, and took this long."""
        if kind == "pre_commit":
            self._of(fields["sink"]).pre_commits_ms += fields["ms"]
        elif kind == "commit":
            self._of(fields["sink"]).commits_ms += fields["ms"]

    def watch(self, event: Event, before: JobState, after: JobState) -> None:
        """What a step did to the transactions of a sink."""
        if not isinstance(event, SinkPreCommitted | PreCommitFailed | TransactionCommitted | CommitFailed):
            return
        stood, stands = before.sinks.get(event.sink), after.sinks.get(event.sink)
        if stood is None or stands is None:
            return
        counts = self._of(event.sink)
        match event:
            case SinkPreCommitted():
                counts.pre_commits += len(stands.pre_committed) > len(stood.pre_committed)
            case PreCommitFailed():
                counts.failed_pre_commits += len(stands.wanted) < len(stood.wanted)
            case TransactionCommitted() if len(stands.due) < len(stood.due):
                counts.commits += 1
                counts.recovered_commits += event.pre_committed_in != event.generation
            case CommitFailed():
                counts.failed_commits += stands.tries > stood.tries
            case _:
                pass

    def of(self, state: JobState) -> list[Line]:
        """Every sink: what it owes now, and what it did in this process."""
        return [self._line(state, name, sink) for name, sink in state.sinks.items()]

    def _line(self, state: JobState, name: SinkId, sink: SinkState) -> Line:
        counts = self._counts.get(name) or _Counts()
        owner = state.graph.owner[name]
        task = state.execution.tasks.get(owner)
        return {
            "sink": name,
            "task": owner,
            "open_batches": None if task is None else max(0, task.boundary.batch - sink.pre_committed_through),
            "pre_committed": len(sink.pre_committed),
            "due": len(sink.due),
            "in_doubt": sum(
                transaction.generation != state.leadership.generation or (place == 0 and sink.tries > 0)
                for place, (_, transaction) in enumerate(sink.due)
            ),
            "abandoned": sum(each.sink == name for each in state.termination.abandoned),
            "full": sink.full,
            "pre_commits": counts.pre_commits,
            "failed_pre_commits": counts.failed_pre_commits,
            "pre_commits_ms": round(counts.pre_commits_ms, 1),
            "committed": counts.commits,
            "recovered_commits": counts.recovered_commits,
            "failed_commits": counts.failed_commits,
            "commits_ms": round(counts.commits_ms, 1),
        }

    def _of(self, sink: SinkId) -> _Counts:
        return self._counts.setdefault(sink, _Counts())
