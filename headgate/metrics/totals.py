"""What the events of one process add up to, for metrics.

One rule: counts only grow, from 0 when the process begins; of everything else the last is remembered. So it costs the
same memory whatever happens, and an event costs a few additions.

Taken in by the driver loop, and read from other threads: a mapping is copied before it is walked over.
"""

from collections import Counter

from headgate.view.history import LineView

KINDS = ("checkpoint", "savepoint")
OUTCOMES = ("completed", "failed")
LEVELS = ("task", "job")
RECOVERIES = ("start", *LEVELS)
CLASSES = ("user", "external", "lost-executor", "internal")


class EventTotals:
    """The events so far."""

    def __init__(self) -> None:
        """None yet. What may happen is counted as 0, so that its first time is a rise."""
        self.checkpoints: Counter[tuple[str, str]] = Counter({(k, o): 0 for k in KINDS for o in OUTCOMES})
        self.restarts: Counter[str] = Counter(dict.fromkeys(LEVELS, 0))
        self.failures: Counter[tuple[str, str]] = Counter()
        self.restores: Counter[str] = Counter(dict.fromkeys(RECOVERIES, 0))
        self.restore_ms: dict[str, float] = {}
        self.replay_ms: dict[str, float] = {}
        self.restored_at_ms: int | None = None
        """When a generation last began from a checkpoint."""
        self.durations_ms = 0.0
        self.commit_retries = 0
        self.completed: LineView | None = None
        """The checkpoint or savepoint that completed last."""
        self.commit_ms: float | None = None
        """What the last commit of a checkpoint took, over all sinks."""

    def take(self, line: LineView) -> None:
        """Take in the next event."""
        match line["event"]:
            case "checkpoint-completed":
                self.checkpoints[line["kind"], "completed"] += 1
                self.durations_ms += line["duration_ms"]
                self.completed = line
            case "checkpoint-failed":
                self.checkpoints[line["kind"], "failed"] += 1
            case "checkpoint-committed":
                self.commit_retries += line["retries"]
                self.commit_ms = line["commit_ms"]
            case "restart":
                self.restarts[line["level"]] += 1
            case "task-failed":
                self.failures[line["task"], line["class"]] += 1
            case "generation" if line["base"] is not None:
                self.restored_at_ms = line["at"]
            case "restored":
                self.restores[line["level"]] += 1
                self.restore_ms[line["level"]] = line["restore_ms"]
            case "caught-up":
                self.replay_ms[line["level"]] = line["replay_ms"]
            case _:
                pass
