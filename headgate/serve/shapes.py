"""What is known of a job, in the shapes of the REST API.

One rule: views in, plain data out, under the names of ``models``; what is not known is None. Nothing is read here, and
nothing is computed that a view could tell.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.ids import NO_BATCH
from headgate.view.history import LineView
from headgate.view.job import LIVE

Data = dict[str, Any]

STATES = {
    "new": "CREATED",
    "starting": "INITIALIZING",
    "running": "RUNNING",
    "restarting": "RESTARTING",
    "closing": "CANCELLING",
    "finished": "FINISHED",
    "stopped": "FINISHED",
    "cancelled": "CANCELED",
    "failed": "FAILED",
    "damaged": "FAILED",
    "deposed": "SUSPENDED",
    "interrupted": "SUSPENDED",
    "crashed": "SUSPENDED",
    "unknown": "RECONCILING",
}
"""Our words for the state of a job, and Flink's."""
RUNNING = ("INITIALIZING", "RUNNING", "RESTARTING", "CANCELLING")
STATUSES = {
    "starting": "INITIALIZING",
    "restarting": "INITIALIZING",
    "running": "RUNNING",
    "stopped": "CANCELED",
    "finished": "FINISHED",
}
"""The same of a task."""
LOW, HIGH = 0.1, 0.5
"""Backpressure above these is low, and high."""
KNOWN = (
    *("task", "state", "run", "batch", "lag", "rows", "rows_per_s", "wait_ms", "batch_rows"),
    *("busy_ratio", "idle_ratio", "backpressured_ratio", "watermark_ms", "state_rows", "state_bytes"),
    *("rows_in", "rows_out", "bytes_in", "bytes_out", "run_started_ms", "run_ended_ms", "idle_ms"),
)
"""What is read of a task of a status, by name. All else is handed on as it is."""


def overview(
    summaries: Sequence[Data],
    version: str,
    storages: Sequence[str],
    unreachable: Mapping[str, str],
    process: Data,
    now_ms: int,
) -> Data:
    """How many jobs there are, by state."""
    states = [each["state"] for each in summaries]
    return {
        "headgate-version": version,
        "jobs-running": sum(state in RUNNING for state in states),
        "jobs-finished": states.count("FINISHED"),
        "jobs-cancelled": states.count("CANCELED"),
        "jobs-failed": states.count("FAILED"),
        "jobs-suspended": sum(state in ("CREATED", "SUSPENDED", "RECONCILING") for state in states),
        "storages": list(storages),
        "unreachable": dict(unreachable),
        "process": process,
        "now": now_ms,
    }


def summary(jid: str, view: LineView, storage: str, now_ms: int, *, live: bool) -> Data:
    """A job among others."""
    state, started, uptime = STATES[view["state"]], view["started_ms"], view["uptime_ms"]
    heard = None if started is None or uptime is None else started + uptime
    statuses = [STATUSES[task["state"]] for task in view["tasks"]]
    return {
        "jid": jid,
        "name": view["job"],
        "state": state,
        "phase": view["state"],
        "text": view["text"],
        "start-time": started,
        "end-time": None if live else heard,
        "duration": uptime,
        "last-modification": now_ms if live else heard,
        "tasks": {
            "total": len(statuses),
            **{name.lower(): statuses.count(name) for name in ("INITIALIZING", "RUNNING", "FINISHED", "CANCELED")},
        },
        "storage": storage,
        "live": live,
        "last_checkpoint": view["last_checkpoint"],
        "restarts": dict(view["restarts"]),
    }


def details(jid: str, view: LineView, described: LineView | None, storage: str, now_ms: int, *, live: bool) -> Data:
    """All that a page on one job begins with."""
    known = vertices(view, described, now_ms)
    counts: dict[str, int] = {}
    for vertex in known:
        counts[vertex["status"]] = counts.get(vertex["status"], 0) + 1
    names = [task["task"] for task in view["tasks"] if task["state"] != "finished"]
    return {
        **summary(jid, view, storage, now_ms, live=live),
        "isStoppable": live and view["state"] in ("starting", "running", "restarting"),
        "now": now_ms,
        "leader": view["leader"],
        "generation": view["generation"],
        "timestamps": {STATES[name]: spell["entered_ms"] for name, spell in view.get("states", {}).items()},
        "uptime": view["uptime_ms"] if live else None,
        "vertices": known,
        "status-counts": counts,
        "plan": plan(jid, view["job"], described),
        "sinks": [{"open_batches": None, **sink} for sink in view["sinks"]],
        "spark_ui": ((described or {}).get("configuration") or {}).get("spark_ui") if live else None,
        "in_progress": [
            {**each, "waiting": [name for name in names if name not in each["acknowledged"]]}
            for each in view.get("in_progress", ())
        ],
        "last_failure": view["last_failure"],
        "stalled": list(view["stalled"]),
    }


# -- tasks -----------------------------------------------------------------------------------------------------------


def vertices(view: LineView, described: LineView | None, now_ms: int) -> list[Data]:
    """The tasks of a job. One that has no checkpoint yet and does not run has those of its plan."""
    planned = {node["id"]: node for node in _planned(described).get("tasks", ())}
    tasks = view["tasks"] or [
        {"task": name, "state": "stopped", "run": None, "batch": NO_BATCH, "lag": {}} for name in planned
    ]
    partitions = _planned(described).get("state_partitions")
    return [_vertex(task, planned.get(task["task"]), partitions, now_ms) for task in tasks]


def _vertex(task: LineView, planned: LineView | None, partitions: int | None, now_ms: int) -> Data:
    stateful = planned is not None and any(part["stateful"] for part in planned["operators"])
    uids = [] if planned is None else [part["uid"] for part in (*planned["operators"], *planned["sinks"])]
    rows_in = task.get("rows_in")
    skew, skew_of = _skew(task)
    started, ended = task.get("run_started_ms"), task.get("run_ended_ms")
    waited, batches = task.get("wait_ms"), task.get("batches_ms")
    return {
        "id": task["task"],
        "name": " -> ".join(uids) or task["task"],
        "status": STATUSES[task["state"]],
        "phase": task["state"],
        "start-time": started,
        "end-time": ended,
        "duration": None if started is None else (now_ms if ended is None else ended) - started,
        "parallelism": partitions if stateful else None,
        "run": task["run"],
        "batch": task["batch"],
        "metrics": {
            "read-records": task.get("rows") if rows_in is None else rows_in,
            "write-records": task.get("rows_out"),
            "read-bytes": task.get("bytes_in"),
            "write-bytes": task.get("bytes_out"),
            "accumulated-backpressured-time": waited,
            "accumulated-busy-time": None if waited is None or batches is None else max(0, batches - waited),
            "accumulated-idle-time": task.get("idle_ms"),
        },
        "rows_per_s": task.get("rows_per_s"),
        "lag": dict(task["lag"]),
        "wait_ms": task.get("wait_ms"),
        "batch_rows": task.get("batch_rows"),
        "busy_ratio": task.get("busy_ratio"),
        "idle_ratio": task.get("idle_ratio"),
        "backpressured_ratio": task.get("backpressured_ratio"),
        "backpressure-level": level(task.get("backpressured_ratio")),
        "watermark_ms": task.get("watermark_ms"),
        "state_rows": task.get("state_rows"),
        "state_bytes": task.get("state_bytes"),
        "skew": skew,
        "skew_of": skew_of,
        "details": {name: value for name, value in task.items() if name not in KNOWN},
    }


def _skew(task: LineView) -> tuple[float | None, str | None]:
    """What of a task is most uneven, and how much."""
    parts = [(each["skew"], str(each["source"])) for each in task.get("sources", ())]
    parts += [(each["skew"], f"state {each['operator']}") for each in task.get("state_operators", ())]
    return max((part for part in parts if part[0] is not None), default=(None, None))


def level(ratio: float | None) -> str | None:
    """Backpressure in a word."""
    if ratio is None:
        return None
    return "ok" if ratio <= LOW else "low" if ratio <= HIGH else "high"


def backpressure(vertex: LineView, now_ms: int) -> Data:
    """How a task spends its time."""
    return {
        "id": vertex["id"],
        "status": "unknown" if vertex["backpressured_ratio"] is None else "ok",
        "backpressure-level": vertex["backpressure-level"],
        "end-timestamp": now_ms,
        "ratio": vertex["backpressured_ratio"],
        "idleRatio": vertex["idle_ratio"],
        "busyRatio": vertex["busy_ratio"],
        "wait_ms": vertex["wait_ms"],
        "lag": vertex["lag"],
    }


def vertex_metrics(vertex: LineView) -> list[Data]:
    """The figures of a task, under Flink's names."""
    counted = vertex["metrics"]
    return _metrics(
        {
            "numRecordsIn": counted["read-records"],
            "numRecordsOut": counted["write-records"],
            "numBytesIn": counted["read-bytes"],
            "numBytesOut": counted["write-bytes"],
            "numRecordsInPerSecond": vertex["rows_per_s"],
            "busyTimeMsPerSecond": _per_second(vertex["busy_ratio"]),
            "idleTimeMsPerSecond": _per_second(vertex["idle_ratio"]),
            "backPressuredTimeMsPerSecond": _per_second(vertex["backpressured_ratio"]),
            "currentInputWatermark": vertex["watermark_ms"],
            "stateRows": vertex["state_rows"],
            "stateBytes": vertex["state_bytes"],
            "lag": max(vertex["lag"].values(), default=0),
        }
    )


def job_metrics(
    view: LineView, counts: LineView, last: LineView | None, restored_ms: int | None, metadata_bytes: int | None
) -> list[Data]:
    """The figures of a job. ``last`` is its newest completed checkpoint, as ``checkpoints.statistics`` tells it,
    ``metadata_bytes`` the size of its record, and ``restored_ms`` when the job last went on from one.
    """
    known = last or {}
    restarts = view["restarts"]
    return _metrics(
        {
            "uptime": view["uptime_ms"],
            "downtime": view.get("downtime_ms"),
            **_state_times(view),
            "numRestarts": sum(restarts.values()),
            "fullRestarts": restarts["job"],
            "taskRestarts": restarts["task"],
            "lastCompletedCheckpointId": known.get("id"),
            "lastCheckpointDuration": known.get("end_to_end_duration"),
            "lastCheckpointCompletedTimestamp": known.get("latest_ack_timestamp"),
            "lastCheckpointRestoreTimestamp": restored_ms,
            "lastCheckpointSize": known.get("checkpointed_size"),
            "lastCheckpointFullSize": known.get("state_size"),
            "lastCheckpointMetadataSize": metadata_bytes,
            "lastCheckpointPersistedData": known.get("persisted_data"),
            "totalNumberOfCheckpoints": counts["total"],
            "numberOfInProgressCheckpoints": counts["in_progress"],
            "numberOfCompletedCheckpoints": counts["completed"],
            "numberOfFailedCheckpoints": counts["failed"],
        }
    )


def _state_times(view: LineView) -> dict[str, int | None]:
    """How long the job is in each state, and was in all, under Flink's names."""
    times: dict[str, int | None] = {}
    for word in LIVE:
        spell = view.get("states", {}).get(word, {})
        times[f"{STATES[word].lower()}Time"] = spell.get("current_ms")
        times[f"{STATES[word].lower()}TimeTotal"] = spell.get("total_ms")
    return times


def _metrics(figures: Mapping[str, float | int | None]) -> list[Data]:
    return [{"id": name, "value": value} for name, value in figures.items()]


def _per_second(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio * 1000, 1)


# -- the plan and the settings ---------------------------------------------------------------------------------------


def plan(jid: str, name: str, described: LineView | None) -> Data:
    """Tasks as nodes, channels as edges. Empty if nobody has written it down."""
    planned = _planned(described)
    channels = planned.get("channels", ())
    partitions = planned.get("state_partitions")
    return {
        "jid": jid,
        "name": name,
        "type": "STREAMING",
        "guarantee": planned.get("guarantee"),
        "because": planned.get("because", []),
        "state_partitions": partitions,
        "nodes": [_node(task, channels, partitions) for task in planned.get("tasks", ())],
        "edges": [
            {
                "id": each["id"],
                "source": each["from"],
                "target": each["to"],
                "operator": each["operator"],
                "input": each["input"],
            }
            for each in channels
        ],
    }


def _node(task: LineView, channels: Sequence[LineView], partitions: int | None) -> Data:
    stateful = any(part["stateful"] for part in task["operators"])
    inputs = [each for each in channels if each["to"] == task["id"]]
    return {
        "id": task["id"],
        "operator": task["operators"][-1]["uid"],
        "description": " -> ".join(part["uid"] for part in (*task["operators"], *task["sinks"])),
        "parallelism": partitions if stateful else None,
        "inputs": [
            {
                "num": number,
                "id": each["from"],
                "channel": each["id"],
                "operator": each["operator"],
                "ship_strategy": "CHANNEL",
                "exchange": "durable",
            }
            for number, each in enumerate(inputs)
        ],
        "operators": list(task["operators"]),
        "sources": [part["uid"] for part in task["operators"] if part["kind"] == "source"],
        "sinks": list(task["sinks"]),
        "output_mode": task["output_mode"],
        "stateful": stateful,
    }


def configuration(jid: str, name: str, described: LineView | None) -> Data:
    """How a job is tuned."""
    known = (described or {}).get("configuration") or {}
    partitions = _planned(described).get("state_partitions")
    execution = {
        "restart-strategy": known.get("restart_strategy", ""),
        "job-parallelism": partitions,
        "user-config": known.get("spark_conf", {}),
    }
    return {
        "jid": jid,
        "name": name,
        "execution-config": execution if known else None,
        "master": known.get("master"),
        "state_backend": known.get("state_backend"),
        "batch_interval": known.get("batch_interval_ms"),
        "latency": known.get("latency_ms"),
        "history": known.get("history"),
        "versions": known.get("versions", {}),
    }


def _planned(described: LineView | None) -> LineView:
    return (described or {}).get("plan") or {}
