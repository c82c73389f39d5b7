"""What the API answers about recorded worlds, and the operations that it is asked for.

One rule: it has the shapes of the models, and no wisdom of its own.
"""

import threading
import time

from headgate.serve import models
from tests.ui.flames import waiting
from tests.ui.world import Data, World, blank


class Recorded:
    """Worlds, and what has been asked of them."""

    def __init__(self, worlds: list[World], *, server: bool = True) -> None:
        self.worlds = worlds
        self.began = time.monotonic()
        self.speed = 1.0
        self.stands_at: float | None = None
        self.operations: list[Data] = []
        self.lines = [log_line(second) for second in range(60)]
        self.server = server
        self.unreachable: dict[str, str] = {}
        self.sampling: str | None = None
        """What flame graphs are at, if it is not the usual."""
        self.gone = threading.Event()
        """Whoever sets this closes all streams, and nothing is answered any more."""
        self.changed = threading.Condition()

    @property
    def at(self) -> float:
        if self.stands_at is not None:
            return self.stands_at
        return self.speed * (time.monotonic() - self.began)

    def world(self, jid: str) -> World:
        for world in self.worlds:
            if world.name == jid:
                return world
        raise KeyError(
            f"there is no job {jid} in {', '.join(sorted({one.storage for one in self.worlds})) or 'any storage'}"
        )

    # -- of all jobs ----------------------------------------------------------------------------------------------

    def overview(self) -> Data:
        def many(*phases: str) -> int:
            return sum(world.phase in phases for world in self.worlds)

        return blank(
            models.Overview,
            **{
                "headgate-version": "0.2.0",
                "jobs-running": many("running", "restarting", "starting", "closing"),
                "jobs-finished": many("finished", "stopped"),
                "jobs-cancelled": many("cancelled"),
                "jobs-failed": many("failed"),
                "jobs-suspended": many("new", "interrupted", "crashed"),
            },
            storages=sorted({world.storage for world in self.worlds}) or ["/data/headgate"],
            unreachable=self.unreachable,
            process=self.process(),
            now=self.worlds[0].now_ms(self.at) if self.worlds else round(time.time() * 1000),
        )

    def config(self, *, reads: bool) -> Data:
        features = {"web-cancel": not reads, "web-history": self.server, "web-submit": False, "web-rescale": False}
        return blank(
            models.DashboardConfiguration,
            **{"refresh-interval": 3000, "timezone-name": "UTC", "timezone-offset": 0, "headgate-version": "0.2.0"},
            features=features,
            process=self.process(),
        )

    def process(self) -> Data:
        return {
            "pid": 41873,
            "machine": "driver-7f9c",
            "job": None if self.server else self.worlds[0].name,
            "leader": None,
        }

    # -- of one ---------------------------------------------------------------------------------------------------

    def history(self, world: World, asked: dict[str, list[str]]) -> Data:
        at, last = self.at, world.last_id(self.at)
        limit, before = int(asked.get("limit", ["50"])[0]), int(asked.get("before", [str(10**9)])[0])
        newest = last + (1 if world.progress(at) else 0)
        ids = list(range(min(newest, before - 1), 0, -1)[:limit])
        rows = [world.checkpoint(number, at) for number in ids]
        completed = next(
            (number for number in range(last, 0, -1) if not world.is_savepoint(number) and number not in world.failed),
            None,
        )
        savepoint = next((number for number in range(last, 0, -1) if world.is_savepoint(number)), None)
        failed = max(world.failed, default=None)
        base = next((one["checkpoint"] for one in world.restarts if one["checkpoint"]), None)
        sample = [
            world.checkpoint(number, at) for number in range(max(1, last - 60), last + 1) if number not in world.failed
        ]
        summary = {
            name: stats([one[name] for one in sample if one[name] is not None])
            for name in (
                "end_to_end_duration",
                "checkpointed_size",
                "state_size",
                "persisted_data",
                "pre_commit_ms",
                "publish_ms",
                "commit_ms",
                "files",
            )
        }
        return blank(
            models.CheckpointingStatistics,
            counts={
                "total": newest,
                "in_progress": newest - last,
                "completed": last - len(world.failed),
                "failed": len(world.failed),
                "restored": world.restart_counts()["job"],
                "savepoints": last // world.savepoint_every,
            },
            summary=None if asked.get("summary") == ["false"] else summary,
            latest={
                "completed": completed and world.checkpoint(completed, at),
                "savepoint": savepoint and world.checkpoint(savepoint, at),
                "failed": failed and world.checkpoint(failed, at),
                "restored": base
                and {
                    "id": base,
                    "restore_timestamp": world.restarts[0]["running_ms"],
                    "is_savepoint": False,
                    "external_path": None,
                    "generation": 2,
                },
            },
            history=rows,
            next_before=ids[-1] if ids and ids[-1] > 1 else None,
            unreadable=0,
        )

    def savepoints(self, world: World) -> Data:
        ids = [
            number
            for number in range(world.last_id(self.at) + 1, 0, -1)
            if world.is_savepoint(number) and number not in world.deleted
        ][:40]
        known = [number for number in ids if number <= world.last_id(self.at) or world.progress(self.at)]
        return {
            "savepoints": [
                {
                    **world.checkpoint(number, self.at),
                    "carried_off": index == 2,
                    "label": "before the upgrade" if index == 1 else None,
                }
                for index, number in enumerate(known)
            ]
        }

    def receipts(self, world: World) -> Data:
        last = world.last_id(self.at)
        found = []
        for number in range(last, max(0, last - 40), -1):
            one = world.checkpoint(number, self.at)
            if one["status"] != "COMPLETED":
                continue
            for task in world.tasks:
                for sink, _, _ in task.sinks:
                    found.append(
                        blank(
                            models.SinkReceipt,
                            sink=sink,
                            task=task.name,
                            generation=1,
                            checkpoint=number,
                            after=3 * number - 4,
                            through=3 * number - 1,
                            rows=40_000 + 137 * number,
                            hash=f"files:{number * 2654435761 % 2**64:016x}",
                            sources={"orders": [str(120_000 * (number - 1)), str(120_000 * number)]},
                            pre_committed_ms=one["trigger_timestamp"],
                            committed_ms=one["latest_ack_timestamp"],
                            published_with=number,
                            recovered=False,
                            in_history=True,
                        )
                    )
        return {"receipts": found, "unreadable": 0, "next_before": None}

    def details_of(self, world: World, number: int) -> Data:
        if not 1 <= number <= world.last_id(self.at) + 1:
            raise KeyError(f"{world.name} has no checkpoint {number}")
        return world.checkpoint(number, self.at)

    def partitions(self, world: World, number: int, name: str) -> Data:
        one = self.details_of(world, number)
        if name not in one["tasks"]:
            raise KeyError(f"checkpoint {number} of {world.name} has no task {name}")
        task, part = next(task for task in world.tasks if task.name == name), one["tasks"][name]
        rows = [
            blank(
                models.PartitionStatistics,
                index=index,
                operator=task.operators[-1],
                status="completed",
                state_size=round(part["state_size"] / 16 * (1 + (index % 5) / 9)),
                checkpointed_size=round(part["checkpointed_size"] / 16 * (1 + (index % 3) / 7)),
            )
            for index in range(16 if task.stateful else 0)
        ]
        figures = {name: stats([row[name] for row in rows]) for name in ("checkpointed_size", "state_size")}
        return blank(models.TaskCheckpointDetails, **part, summary=figures, subtasks=rows)

    def events(self, world: World, asked: dict[str, list[str]]) -> Data:
        limit, before, types = int(asked.get("limit", ["50"])[0]), asked.get("before"), asked.get("type", [])
        found: list[Data] = []
        for number in range(max(1, world.last_id(self.at) - 400), world.last_id(self.at) + 1):
            found += events_of(world, number, self.at)
        for one in world.failures:
            found.append(
                {
                    "at": one["timestamp"],
                    "event": "task-failed",
                    "task": one["taskName"],
                    "run": 2,
                    "class": one["failureLabels"]["class"],
                    "message": one["message"],
                }
            )
        if world.tasks:
            begin = world.began_ms - 5_400_000
            found.append(
                {
                    "at": begin,
                    "event": "generation",
                    "generation": 1,
                    "base": None,
                    "leader": "driver-7f9c.example.org/41873",
                }
            )
            found.append({"at": begin + 10, "event": "guarantee", "guarantee": "exactly-once", "because": []})
            found += [
                {"at": begin + 900, "event": "task-started", "task": task.name, "run": 1, "batch": -1}
                for task in world.tasks[:30]
            ]
        if world.end_ms and not world.live:
            found.append(
                {"at": world.end_ms, "event": "ended", "ending": world.phase, "text": world.text, "leader": None}
            )
        found.sort(key=lambda one: one["at"])
        named = [
            {**one, "position": f"e{index:07}"} for index, one in enumerate(found) if not types or one["event"] in types
        ]
        if before:
            named = [one for one in named if one["position"] < before[0]]
        page = named[-limit:]
        return {"events": page, "next_before": page[0]["position"] if len(named) > limit else None}

    def waiting(self, world: World, number: int, *, stacks: bool) -> Data:
        progress = world.progress(self.at)
        if progress is None or progress["id"] != number:
            return blank(models.CheckpointWaiting, id=number)
        return waiting(progress, stacks=stacks)

    def logs(self, world: World, asked: dict[str, list[str]]) -> Data:
        if not world.tasks:
            return {"logs": [], "name": None, "lines": []}
        files = [
            {
                "name": f"{world.name}.{pid}.log",
                "pid": pid,
                "size": 4096 * pid,
                "mtime": world.now_ms(self.at),
                "running": pid == 41873 and world.live,
            }
            for pid in (41873, 40211)
        ]
        lines = self.lines * 20
        return {
            "logs": files,
            "name": asked.get("name", [files[0]["name"]])[0],
            "lines": lines[-int(asked.get("lines", ["100"])[0]) :],
        }

    # -- operations -----------------------------------------------------------------------------------------------

    def diagnosis(self, world: World) -> Data:
        rules = ["restart-loop", "slow-start-delay", "state-grows", "gc-pressure"]
        levels = [each["verdict"] for each in world.findings]
        return blank(
            models.JobDiagnosis,
            job=world.name,
            at=world.now_ms(self.at),
            ok="problem" not in levels,
            counts={level: levels.count(level) for level in ("ok", "note", "warning", "problem")},
            rules=rules,
            unknown=rules[3:] if world.phase != "new" else rules,
            findings=world.findings,
        )

    def begin(self, world: World, kind: str, checkpoint: int | None, name: str) -> Data:
        now = world.now_ms(self.at)
        operation = blank(
            models.OperationStatus,
            status={"id": "IN_PROGRESS"},
            **{"request-id": name},
            kind=kind,
            checkpoint=checkpoint,
            text=f"{kind} asked for",
            notices=1,
            begun_ms=now,
        )
        self.operations.insert(0, operation)
        threading.Timer(2.0, self.finish, [world, operation]).start()
        return {"request-id": name}

    def finish(self, world: World, operation: Data) -> None:
        number = operation["checkpoint"]
        match operation["kind"]:
            case "hold":
                world.held.add(number)
            case "release":
                world.held.discard(number)
            case "delete":
                world.deleted.add(number)
            case _:
                pass
        refused = operation["kind"] == "stop" and world.stalled
        text = f"{operation['kind']} {number or world.last_id(self.at)} completed"
        said = "the savepoint failed, so the job runs on: " + world.stalled[0] if refused else text
        cause = {"class": "failed", "stack-trace": said} if refused else None
        operation.update(
            status={"id": "COMPLETED"},
            outcome="failed" if refused else "done",
            operation={"checkpointId": number or world.last_id(self.at), "location": None, "failure-cause": cause},
            text=said,
            notices=2,
            ended_ms=world.now_ms(self.at),
        )
        with self.changed:
            self.changed.notify_all()

    def operation(self, name: str, wait_s: float, after: int) -> Data:
        found = next((one for one in self.operations if one["request-id"] == name), None)
        if found is None:
            raise KeyError(f"there is no operation {name}")
        with self.changed:
            self.changed.wait_for(lambda: found["status"]["id"] == "COMPLETED" or found["notices"] > after, wait_s)
        return found


def stats(values: list[float]) -> Data:
    ordered = sorted(values)
    if not ordered:
        return blank(models.StatsSummary)
    at = {
        name: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
    }
    return blank(models.StatsSummary, min=ordered[0], avg=round(sum(ordered) / len(ordered), 1), max=ordered[-1], **at)


def events_of(world: World, number: int, at: float) -> list[Data]:
    one = world.checkpoint(number, at)
    kind = "savepoint" if one["is_savepoint"] else "checkpoint"
    begin = {
        "at": one["trigger_timestamp"],
        "event": "checkpoint-triggered",
        "id": number,
        "kind": kind,
        "unaligned": False,
    }
    if one["status"] == "FAILED":
        return [
            begin,
            {
                "at": one["failure_timestamp"],
                "event": "checkpoint-failed",
                "id": number,
                "kind": kind,
                "why": one["failure_message"],
            },
        ]
    if one["status"] == "IN_PROGRESS":
        return [begin]
    done = one["latest_ack_timestamp"]
    return [
        begin,
        {
            "at": done,
            "event": "checkpoint-completed",
            "id": number,
            "kind": kind,
            "duration_ms": one["end_to_end_duration"],
        },
        {
            "at": done + one["commit_ms"],
            "event": "checkpoint-committed",
            "id": number,
            "commit_ms": one["commit_ms"],
            "retries": one["retries"],
            "recovered": False,
        },
    ]


def log_line(second: int) -> str:
    about = f"[job=orders task=user-windows batch={5200 + second}]"
    if second % 13:
        return f"2026-11-18 20:41:{second:02} INFO headgate.run {about} committed {900 + second} rows"
    return f"2026-11-18 20:41:{second:02} WARNING headgate.sink {about} a commit is tried again: connection refused"


CHECKPOINT_CONFIG = blank(
    models.CheckpointConfig,
    mode="exactly_once",
    interval=10_000,
    timeout=600_000,
    min_pause=1000,
    max_concurrent=1,
    tolerable_failed_checkpoints=2,
    unaligned_checkpoints=False,
    aligned_checkpoint_timeout=30_000,
    externalization={"enabled": True, "delete_on_cancellation": True},
    checkpoints_after_tasks_finish=True,
    checkpoint_storage="",
    state_backend="rocksdb",
    state_changelog_enabled=True,
    changelog_periodic_materialization_interval=60_000,
    num_retained=3,
    max_batches_ahead=8,
    working_directory="/data/headgate/work",
)
CONFIG = blank(
    models.JobConfiguration,
    jid="",
    name="",
    **{
        "execution-config": {
            "restart-strategy": "exponential-delay: initial_ms=1000, max_ms=60000, reset_ms=600000",
            "job-parallelism": 16,
            "user-config": {
                "spark.executor.cores": "4",
                "spark.executor.memory": "8g",
                "spark.sql.shuffle.partitions": "16",
                "spark.sql.streaming.stateStore.providerClass": "com.example.state.CountingStateStoreProvider",
                "spark.sql.session.timeZone": "UTC",
            },
        }
    },
    master="spark://spark-master:7077",
    state_backend="rocksdb",
    batch_interval=None,
    latency=500,
    history={"max_checkpoints": 100_000, "max_bytes": 256 << 20},
    versions={"headgate": "0.2.0", "pyspark": "4.3.0", "python": "3.12.4"},
)
