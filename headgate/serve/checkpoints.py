"""Checkpoints in the shapes of the REST API, under Flink's names.

One rule: as in ``shapes``: views in, plain data out, and what is not known is None.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.view.history import LineView
from headgate.view.summary import summary as summarise

Data = dict[str, Any]

STATUSES = {"pending": "IN_PROGRESS", "completed": "COMPLETED", "failed": "FAILED"}
FIGURES = {
    "end_to_end_duration": "duration_ms",
    "checkpointed_size": "new_bytes",
    "state_size": "total_bytes",
    "persisted_data": "in_flight_bytes",
    "pre_commit_ms": "pre_commit_ms",
    "publish_ms": "publish_ms",
    "commit_ms": "commit_ms",
    "files": "files",
}
"""Figures of a summary, and what views call them."""


def statistics(one: LineView, path: str | None, tasks: int | None = None, progress: LineView | None = None) -> Data:
    """One checkpoint.

    ``path`` is where the copy of it would be, if it is a savepoint; ``tasks`` how many the job has, and ``progress``
    how far it has come, as far as anybody knows.
    """
    status, savepoint = STATUSES[one["state"]], one["kind"] == "savepoint"
    parts = {name: task_statistics(one, name) for name in one["tasks"]}
    failed = status == "FAILED"
    acknowledged = None if progress is None else len(progress["acknowledged"])
    return {
        "id": one["id"],
        "status": status,
        "is_savepoint": savepoint,
        "checkpoint_type": "SAVEPOINT" if savepoint else "UNALIGNED_CHECKPOINT" if one["unaligned"] else "CHECKPOINT",
        "savepointFormat": "NATIVE" if savepoint else None,
        "trigger_timestamp": one["triggered_ms"],
        "latest_ack_timestamp": one["completed_ms"],
        "end_to_end_duration": one["duration_ms"],
        "checkpointed_size": one["new_bytes"],
        "state_size": one["total_bytes"],
        "persisted_data": one["in_flight_bytes"],
        "files": one["files"],
        "num_subtasks": len(parts) or tasks,
        "num_acknowledged_subtasks": len(parts) or acknowledged,
        "tasks": parts,
        "external_path": path if savepoint and one["copied"] else None,
        "discarded": not one["kept"] and status != "IN_PROGRESS",
        "failure_timestamp": one.get("failed_ms") if failed else None,
        "failure_message": one["why"] if failed else None,
        **{name: one[name] for name in ("generation", "unaligned", "pre_commit_ms", "publish_ms", "commit_ms")},
        **{name: one[name] for name in ("retries", "restarts", "kept", "held", "copied")},
    }


def task_statistics(one: LineView, task: str) -> Data:
    """One task's part in a checkpoint that completed."""
    part, triggered_ms = one["tasks"][task], one.get("triggered_ms")
    took_ms = _until_taken(part)
    return {
        "id": one["id"],
        "status": STATUSES[one["state"]],
        "latest_ack_timestamp": None if triggered_ms is None or took_ms is None else triggered_ms + round(took_ms),
        "end_to_end_duration": took_ms,
        "start_delay": part.get("start_delay_ms"),
        "snapshot_start": part.get("snapshot_start_ms"),
        "alignment": {"duration": part.get("alignment_ms"), "persisted": part.get("in_flight_bytes")},
        "checkpoint": {"sync": part.get("sync_ms"), "async": part.get("async_ms")},
        "checkpointed_size": part.get("new_bytes"),
        "state_size": part.get("total_bytes"),
        "persisted_data": part.get("in_flight_bytes"),
        "files": part.get("files"),
        "num_subtasks": 1,
        "num_acknowledged_subtasks": 1,
    }


def _until_taken(part: LineView) -> float | None:
    """How long it took from the trigger until a task's snapshot was taken. It begins when the task gets to it, which
    may be long after its cut; a task that had finished takes none.
    """
    cut_ms, begun_ms = part.get("start_delay_ms"), part.get("snapshot_start_ms", 0)
    sync_ms, async_ms = part.get("sync_ms"), part.get("async_ms")
    if cut_ms is None or sync_ms is None or async_ms is None:
        return None
    return float(round(max(cut_ms, begun_ms) + sync_ms + async_ms, 1))


def task_details(one: LineView, task: str, parts: Sequence[LineView]) -> Data:
    """The same, with its state partitions as far as they are known."""
    done = one["state"] == "completed"
    partitions = [
        {
            "index": each["partition"],
            "operator": each["operator"],
            "status": "completed" if done else "pending_or_failed",
            "checkpointed_size": each["new_bytes"],
            "state_size": each["bytes"],
        }
        for each in parts
    ]
    sizes = {name: [each[name] for each in partitions] for name in ("checkpointed_size", "state_size")}
    summary = summarise({name: sorted(each for each in all_of if each is not None) for name, all_of in sizes.items()})
    return {**task_statistics(one, task), "summary": summary, "subtasks": partitions}


def summary(figures: Mapping[str, LineView]) -> Data:
    """What completed checkpoints come to."""
    return {name: dict(figures[known]) for name, known in FIGURES.items()}


def config(described: LineView | None) -> Data | None:
    """Settings of checkpoints. None if nobody has written them down."""
    known = (described or {}).get("checkpointing")
    if not known:
        return None
    return {
        "mode": known["mode"].replace("-", "_"),
        "interval": known["interval_ms"],
        "timeout": known["timeout_ms"],
        "min_pause": known["min_pause_ms"],
        "max_concurrent": known["max_concurrent_checkpoints"],
        "tolerable_failed_checkpoints": known["tolerable_failed_checkpoints"],
        "unaligned_checkpoints": known["unaligned"],
        "aligned_checkpoint_timeout": known["aligned_checkpoint_timeout_ms"],
        "externalization": {"enabled": True, "delete_on_cancellation": not known["retain_on_cancellation"]},
        "checkpoints_after_tasks_finish": known["checkpoints_after_tasks_finish"],
        "checkpoint_storage": known["storage"],
        "state_backend": known["state_backend"],
        "state_changelog_enabled": known["changelog"],
        "changelog_periodic_materialization_interval": known.get("materialization_ms"),
        "num_retained": known["num_retained"],
        "max_batches_ahead": known["max_batches_ahead"],
        "working_directory": known["working_directory"],
    }
