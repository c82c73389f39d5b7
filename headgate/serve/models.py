"""What goes in and out of the REST API: the contract with whoever uses it, from which the OpenAPI document is made.

One rule: where a field means what it means in Flink's REST API, it has Flink's name, with its dashes, underscores and
capitals; fields of our own are written with underscores. Times are milliseconds since 1970, durations milliseconds,
sizes bytes. What is not known is null, and never left out.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FlinkState = Literal[
    "CREATED",
    "INITIALIZING",
    "RUNNING",
    "RESTARTING",
    "CANCELLING",
    "FINISHED",
    "CANCELED",
    "FAILED",
    "SUSPENDED",
    "RECONCILING",
]
"""Flink's words for the state of a job."""
JobPhase = Literal[
    "new",
    "starting",
    "running",
    "restarting",
    "closing",
    "finished",
    "stopped",
    "cancelled",
    "failed",
    "deposed",
    "interrupted",
    "crashed",
    "unknown",
    "damaged",
]
"""Headgate's words for the state of a job, as ``headgate status`` prints them."""
TaskStatus = Literal["CREATED", "INITIALIZING", "RUNNING", "FINISHED", "CANCELED"]
TaskPhase = Literal["starting", "running", "restarting", "stopped", "finished"]
BackpressureLevel = Literal["ok", "low", "high"]
"""Backpressure: at most 10 % of the time, at most half of it, more."""
Timeout = Field(default=600.0, gt=0, le=31_536_000)
TriggerId = Field(default=None, alias="triggerId", pattern=r"^[0-9A-Za-z-]{1,64}$")


class AnswerModel(BaseModel):
    """Something that is answered."""

    model_config = ConfigDict(populate_by_name=True, use_attribute_docstrings=True)


class AskModel(BaseModel):
    """Something that is asked for. What is not known is refused."""

    model_config = ConfigDict(populate_by_name=True, use_attribute_docstrings=True, extra="forbid")


class ErrorResponse(AnswerModel):
    """Why something was not done."""

    errors: list[str]
    """One line each: what, where, and what to do."""


class StatsSummary(AnswerModel):
    """Least, mean, greatest and percentiles. All null if nothing was measured."""

    min: float | None
    avg: float | None
    max: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None


# -- the process, and its jobs ---------------------------------------------------------------------------------------


class ProcessInfo(AnswerModel):
    """The process that answers."""

    pid: int
    machine: str
    job: str | None
    """The job that it runs. Null for `headgate server`."""
    leader: str | None


class Overview(AnswerModel):
    """Everything at a glance."""

    headgate_version: str = Field(alias="headgate-version")
    jobs_running: int = Field(alias="jobs-running")
    """Those that a process runs: also those that start, restart or close."""
    jobs_finished: int = Field(alias="jobs-finished")
    """Finished or stopped."""
    jobs_cancelled: int = Field(alias="jobs-cancelled")
    jobs_failed: int = Field(alias="jobs-failed")
    jobs_suspended: int = Field(alias="jobs-suspended")
    """Neither running nor ended: interrupted, crashed, unknown, damaged, new."""
    storages: list[str]
    unreachable: dict[str, str]
    """Storages that cannot be listed, and why. Of their jobs those are shown that were there before."""
    process: ProcessInfo
    now: int


class Features(AnswerModel):
    """What this process and this token can do."""

    web_cancel: bool = Field(alias="web-cancel")
    """Whether the token may command, and not only read."""
    web_history: bool = Field(alias="web-history")
    """Whether jobs that have ended are shown (`headgate server`)."""
    web_submit: bool = Field(alias="web-submit")
    """Always false: jobs are started with `headgate run`."""
    web_rescale: bool = Field(alias="web-rescale")
    """Always false: a job keeps its number of state partitions."""


class DashboardConfiguration(AnswerModel):
    """What a page needs to know once."""

    refresh_interval: int = Field(alias="refresh-interval")
    timezone_name: str = Field(alias="timezone-name")
    timezone_offset: int = Field(alias="timezone-offset")
    headgate_version: str = Field(alias="headgate-version")
    features: Features
    process: ProcessInfo


class LastCheckpoint(AnswerModel):
    """The checkpoint that the job would return to."""

    id: int
    kind: Literal["checkpoint", "savepoint"]
    completed_ms: int | None
    age_ms: int | None
    duration_ms: int | None


class TaskCounts(AnswerModel):
    """Tasks by where they are."""

    total: int
    initializing: int
    running: int
    finished: int
    canceled: int


class JobSummary(AnswerModel):
    """A job among others."""

    jid: str
    """By this a job is asked for. Its name; of a job that is in the second of several storages `name~2`."""
    name: str
    state: FlinkState
    phase: JobPhase
    text: str | None
    """Why it ended, or why it cannot be seen."""
    start_time: int | None = Field(alias="start-time")
    """When its latest execution began."""
    end_time: int | None = Field(alias="end-time")
    """Null while it runs."""
    duration: int | None
    last_modification: int | None = Field(alias="last-modification")
    """When anything was last heard of it."""
    tasks: TaskCounts
    storage: str
    live: bool
    """Whether its process answered just now. What only that knows is null if not."""
    last_checkpoint: LastCheckpoint | None
    restarts: "RestartCounts"


class Jobs(AnswerModel):
    """All jobs: running ones first, then by name."""

    jobs: list[JobSummary]


# -- one job ---------------------------------------------------------------------------------------------------------


class VertexMetrics(AnswerModel):
    """What went through a task since its process began. Null where nobody counts."""

    read_records: int | None = Field(alias="read-records")
    write_records: int | None = Field(alias="write-records")
    read_bytes: int | None = Field(alias="read-bytes")
    write_bytes: int | None = Field(alias="write-bytes")
    accumulated_backpressured_time: int | None = Field(alias="accumulated-backpressured-time")
    """How long its batches have waited for its readers."""
    accumulated_busy_time: int | None = Field(alias="accumulated-busy-time")
    """What its batches that are over took besides."""
    accumulated_idle_time: int | None = Field(alias="accumulated-idle-time")
    """How long its runs were up without a batch at work. What failed batches took is in it."""


class Vertex(AnswerModel):
    """A task: one Spark query."""

    id: str
    name: str
    """Its operators and sinks, in the order of the data."""
    status: TaskStatus
    phase: TaskPhase
    start_time: int | None = Field(alias="start-time")
    """When its last run was up. Only the process that runs the job knows."""
    end_time: int | None = Field(alias="end-time")
    """When that was over: the task has finished, or is to run again. Null while it runs."""
    duration: int | None
    parallelism: int | None
    """How many partitions its state has. Null without state, or before it is known."""
    run: int | None
    """How often its query was started in this generation."""
    batch: int
    """The last one that was committed; -1 for none."""
    metrics: VertexMetrics
    rows_per_s: float | None
    lag: dict[str, int]
    """For each input channel, how many batches it is behind."""
    wait_ms: int | None
    """How long its batches have waited for its readers, since the process began."""
    batch_rows: int | None
    busy_ratio: float | None
    idle_ratio: float | None
    backpressured_ratio: float | None
    backpressure_level: BackpressureLevel | None = Field(alias="backpressure-level")
    watermark_ms: int | None
    state_rows: int | None
    state_bytes: int | None
    skew: float | None
    """The largest partition by the mean of all, of the source or the state that is most uneven: 1 if all are alike."""
    skew_of: str | None
    """Which that is: a source by its uid, or `state N` by the number of the operator."""
    details: dict[str, Any]
    """What else its process tells of it, as in `headgate status --json`."""


class CheckpointProgress(AnswerModel):
    """A checkpoint under way, and how far the barrier has come."""

    id: int
    is_savepoint: bool
    trigger_timestamp: int
    unaligned: bool
    cut: list[str]
    """Tasks through which it has cut: their barrier stands on their output channels."""
    acknowledged: list[str]
    """Tasks whose snapshot is taken."""
    waiting: list[str]
    """Tasks of which it has no snapshot yet."""


class RestartCounts(AnswerModel):
    """How often the latest execution was restarted."""

    task: int
    job: int


class LastFailure(AnswerModel):
    """The last thing that failed."""

    at: int | None
    task: str | None
    failure_class: str | None = Field(alias="class")
    """user, external, lost-executor or internal."""
    message: str | None


class PlanOperator(AnswerModel):
    """One step of the user's job."""

    uid: str
    kind: str
    inputs: list[str]
    stateful: bool
    on_branch: bool
    """It stands between the fork at the end of the task and a sink."""
    description: str
    where: str
    """The line of the user's that made it."""


class PlanSink(AnswerModel):
    """A sink."""

    uid: str
    guarantee: str
    description: str
    inputs: list[str]
    after: list[str]
    """Operators on the way to it from the end of the task."""
    where: str


class PlanInput(AnswerModel):
    """A channel that a task reads."""

    num: int
    id: str
    """The task that it comes from."""
    channel: str
    operator: str
    """The operator that takes it in."""
    ship_strategy: str
    """CHANNEL: segments on disk, and barriers."""
    exchange: str


class PlanNode(AnswerModel):
    """A task of the plan."""

    id: str
    operator: str
    """The uid of its last operator."""
    description: str
    parallelism: int | None
    inputs: list[PlanInput]
    operators: list[PlanOperator]
    """Its sources and operators, inputs first."""
    sources: list[str]
    """Those of them that are sources."""
    sinks: list[PlanSink]
    output_mode: str
    stateful: bool


class PlanEdge(AnswerModel):
    """A channel."""

    id: str
    source: str
    target: str
    operator: str
    input: int


class JobGraph(AnswerModel):
    """The graph of a job: tasks as nodes, channels as edges."""

    jid: str
    name: str
    type: Literal["STREAMING"]
    guarantee: str | None
    because: list[str]
    """The parts that weaken the guarantee."""
    state_partitions: int | None
    """How many a task that begins gets."""
    nodes: list[PlanNode]
    """In the order of the data."""
    edges: list[PlanEdge]


class JobPlan(AnswerModel):
    """The plan. Without nodes if nobody has written it down: an earlier release ran the job last."""

    plan: JobGraph


class SinkFigures(AnswerModel):
    """What a sink owes now, and what it has done since the process began."""

    sink: str
    task: str
    open_batches: int | None
    """Batches in the open transaction: committed by the task, and not pre-committed yet."""
    pre_committed: int
    """Transactions that wait for their checkpoint to complete."""
    due: int
    """Transactions that are to be committed."""
    in_doubt: int
    """Of those: left by an earlier generation, or their commit has failed and may or may not have had its effect."""
    abandoned: int
    """Transactions that somebody gave up by name."""
    full: bool
    """A batch waits until something is committed."""
    pre_commits: int
    failed_pre_commits: int
    pre_commits_ms: float
    """What those that went through took, in sum."""
    committed: int
    recovered_commits: int
    """Of those: pre-committed by an earlier generation."""
    failed_commits: int
    """Tries that failed. Each is followed by another."""
    commits_ms: float


class JobDetails(JobSummary):
    """All that a page on one job begins with."""

    isStoppable: bool  # noqa: N815 - Flink's name
    now: int
    leader: str | None
    generation: int | None
    timestamps: dict[str, int]
    """When it was last in each of its states, since its process began; by Flink's words."""
    uptime: int | None
    vertices: list[Vertex]
    status_counts: dict[str, int] = Field(alias="status-counts")
    plan: JobGraph
    sinks: list[SinkFigures]
    """What each sink owes, and has done. Only a job that runs tells."""
    spark_ui: str | None
    """Where Spark's own UI is, if the job runs and has it on (`spark.ui.enabled`)."""
    in_progress: list[CheckpointProgress]
    last_failure: LastFailure | None
    stalled: list[str]
    """What stands still, and where."""


class VertexParallelism(AnswerModel):
    """Between how many partitions a task may have. They are fixed, so both are what it has."""

    lowerBound: int | None  # noqa: N815 - Flink's name
    upperBound: int | None  # noqa: N815 - Flink's name


class VertexResourceRequirements(AnswerModel):
    """What a task is to have."""

    parallelism: VertexParallelism


class JobStatus(AnswerModel):
    """The state of a job, and all that `headgate status --json` prints."""

    status: FlinkState
    view: dict[str, Any]


class ExecutionConfig(AnswerModel):
    """How it runs."""

    restart_strategy: str = Field(alias="restart-strategy")
    job_parallelism: int | None = Field(alias="job-parallelism")
    """State partitions of a task that begins."""
    user_config: dict[str, str] = Field(alias="user-config")
    """Settings of Spark that the job or the command line gives, without what is secret."""


class JobConfiguration(AnswerModel):
    """How a job is tuned. Null, if nobody has written it down."""

    jid: str
    name: str
    execution_config: ExecutionConfig | None = Field(alias="execution-config")
    master: str | None
    state_backend: str | None
    batch_interval: int | None
    latency: int | None
    history: "HistoryConfiguration | None"
    versions: dict[str, str]
    """Of headgate, pyspark and python."""


class HistoryConfiguration(AnswerModel):
    """How much history is kept."""

    max_checkpoints: int
    max_bytes: int


# -- checkpoints -----------------------------------------------------------------------------------------------------


class CheckpointPhases(AnswerModel):
    """How long a snapshot took."""

    sync: float | None
    async_: float | None = Field(alias="async")


class CheckpointAlignment(AnswerModel):
    """Waiting for barriers, and what was passed by them."""

    duration: int | None
    persisted: int | None


class TaskCheckpointStatistics(AnswerModel):
    """One task's part in a checkpoint."""

    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    latest_ack_timestamp: int | None
    """When its snapshot was taken."""
    end_to_end_duration: float | None
    """From the trigger until its snapshot was taken."""
    start_delay: int | None
    """From the trigger to its cut."""
    snapshot_start: float | None
    """From the trigger until its snapshot began, which may be later than its cut."""
    alignment: CheckpointAlignment
    checkpoint: CheckpointPhases
    checkpointed_size: int | None
    state_size: int | None
    persisted_data: int | None
    files: int | None
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointStatistics(AnswerModel):
    """One checkpoint or savepoint."""

    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    is_savepoint: bool
    checkpoint_type: Literal["CHECKPOINT", "UNALIGNED_CHECKPOINT", "SAVEPOINT"]
    savepointFormat: Literal["NATIVE"] | None  # noqa: N815 - Flink's name
    trigger_timestamp: int | None
    latest_ack_timestamp: int | None
    """When it was complete."""
    end_to_end_duration: int | None
    checkpointed_size: int | None
    """Bytes that no checkpoint had named before."""
    state_size: int | None
    """All bytes that it names."""
    persisted_data: int | None
    """Bytes in flight on channels, which belong to it."""
    files: int | None
    num_subtasks: int | None
    """How many tasks take part."""
    num_acknowledged_subtasks: int | None
    tasks: dict[str, TaskCheckpointStatistics]
    external_path: str | None
    """Where a savepoint's own copy is, once it is complete."""
    discarded: bool
    """The job can no longer return to it."""
    failure_timestamp: int | None
    failure_message: str | None
    generation: int | None
    unaligned: bool | None
    pre_commit_ms: float | None
    """The slowest sink's."""
    publish_ms: int | None
    commit_ms: int | None
    """Until every sink had committed."""
    retries: int | None
    """Of those commits."""
    restarts: int | None
    """Since the checkpoint before."""
    kept: bool
    held: bool
    copied: bool


class CheckpointCounts(AnswerModel):
    """How many there were, as far as the history goes back."""

    total: int
    in_progress: int
    completed: int
    failed: int
    restored: int
    """How often the job went on from one."""
    savepoints: int


class RestoredCheckpoint(AnswerModel):
    """The last checkpoint that the job went on from."""

    id: int
    restore_timestamp: int | None
    is_savepoint: bool
    external_path: str | None
    generation: int | None


class LatestCheckpoints(AnswerModel):
    """The newest of each kind."""

    completed: CheckpointStatistics | None
    """The newest that is no savepoint."""
    savepoint: CheckpointStatistics | None
    failed: CheckpointStatistics | None
    restored: RestoredCheckpoint | None


class CheckpointSummary(AnswerModel):
    """Over all completed checkpoints that the history has."""

    end_to_end_duration: StatsSummary
    checkpointed_size: StatsSummary
    state_size: StatsSummary
    persisted_data: StatsSummary
    pre_commit_ms: StatsSummary
    publish_ms: StatsSummary
    commit_ms: StatsSummary
    files: StatsSummary


class CheckpointingStatistics(AnswerModel):
    """A page of checkpoints, the newest first, and what they come to."""

    counts: CheckpointCounts
    summary: CheckpointSummary | None
    """Null with `summary=false`."""
    latest: LatestCheckpoints
    history: list[CheckpointStatistics]
    next_before: int | None
    """`before` of the next, older page. Null if there is none."""
    unreadable: int
    """Lines of the history that cannot be read."""


class Externalization(AnswerModel):
    """What becomes of checkpoints when the job is cancelled."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(AnswerModel):
    """Settings of checkpoints."""

    mode: Literal["exactly_once", "at_least_once", "at_most_once"]
    interval: int | None
    """Null: only when asked for."""
    timeout: int
    min_pause: int
    max_concurrent: int
    tolerable_failed_checkpoints: int
    unaligned_checkpoints: bool
    aligned_checkpoint_timeout: int | None
    externalization: Externalization
    checkpoints_after_tasks_finish: bool
    checkpoint_storage: str
    state_backend: str
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int | None
    """How often Spark looks whether a snapshot of the state is due. Null without a changelog."""
    num_retained: int
    max_batches_ahead: int | None
    working_directory: str | None


class PartitionStatistics(AnswerModel):
    """One state partition of an operator in a checkpoint."""

    index: int
    operator: str | None
    status: Literal["completed", "pending_or_failed"]
    checkpointed_size: int | None
    """Of files that the kept checkpoint before it does not name. Null if none is kept before it."""
    state_size: int


class PartitionsSummary(AnswerModel):
    """Over the partitions."""

    checkpointed_size: StatsSummary

    state_size: StatsSummary


class TaskCheckpointDetails(TaskCheckpointStatistics):
    """One task's part in a checkpoint; by state partition, as its manifest tells while the checkpoint is kept."""

    summary: PartitionsSummary
    subtasks: list[PartitionStatistics]


class SavepointInfo(CheckpointStatistics):
    """A savepoint that is there, or was carried off."""

    carried_off: bool
    """Its copy was complete, and is not where it was."""
    label: str | None
    """What users call it."""


class Savepoints(AnswerModel):
    """All savepoints that the storage knows, the newest first."""

    savepoints: list[SavepointInfo]


# -- what went wrong -------------------------------------------------------------------------------------------------


class ExceptionInfo(AnswerModel):
    """Something that failed."""

    exceptionName: str  # noqa: N815 - Flink's name
    timestamp: int | None
    stacktrace: str
    """The whole trace if it was recorded, else the message."""
    taskName: str | None  # noqa: N815 - Flink's name
    endpoint: str | None
    taskManagerId: str | None  # noqa: N815 - Flink's name
    failureLabels: dict[str, str]  # noqa: N815 - Flink's name
    """`class`: user, external, lost-executor, internal; `level`: what was restarted, task or job; `run`."""
    message: str
    position: str


class ExceptionEntry(ExceptionInfo):
    """The same, with what failed at the same time."""

    concurrentExceptions: list[ExceptionInfo]  # noqa: N815 - Flink's name


class ExceptionHistory(AnswerModel):
    """A page of them, the newest first."""

    entries: list[ExceptionEntry]
    truncated: bool
    """There are older ones."""


class JobExceptions(AnswerModel):
    """What failed, and what the job would say of its end."""

    exceptionHistory: ExceptionHistory  # noqa: N815 - Flink's name
    root: ExceptionInfo | None
    """What ended the job, if it has failed."""
    next_before: str | None


class RestartInfo(AnswerModel):
    """A restart."""

    timestamp: int | None
    level: Literal["task", "job"]
    task: str | None
    cause: str
    failure_class: str | None = Field(alias="class")
    stacktrace: str | None
    """Of what it answers, if one was recorded."""
    delay_ms: int | None
    """How long the restart strategy waits."""
    failed_ms: int | None
    """When what it answers was taken in. How long it took to be noticed is recorded nowhere."""
    running_ms: int | None
    """When the task, or all tasks, ran again. Null while they do not."""
    restore_ms: int | None
    """From the end of the delay until then. Null also if another failure came between."""
    replay_ms: int | None
    """From then until all batches that had begun before were committed again."""
    checkpoint: int | None
    """What the job went back to, for level job."""
    position: str


class JobRestarts(AnswerModel):
    """A page of restarts, the newest first."""

    counts: RestartCounts
    history: list[RestartInfo]
    next_before: str | None


# -- figures ---------------------------------------------------------------------------------------------------------


class VertexBackpressure(AnswerModel):
    """How a task spends its time."""

    id: str
    status: Literal["ok", "unknown"]
    """unknown: there are no figures."""
    backpressure_level: BackpressureLevel | None = Field(alias="backpressure-level")
    end_timestamp: int = Field(alias="end-timestamp")
    ratio: float | None
    """The share of time that it waits for those who read it."""
    idleRatio: float | None  # noqa: N815 - Flink's name
    busyRatio: float | None  # noqa: N815 - Flink's name
    wait_ms: int | None
    lag: dict[str, int]


class JobBackpressure(AnswerModel):
    """The same of all tasks."""

    vertices: list[VertexBackpressure]


class MetricValue(AnswerModel):
    """A figure."""

    id: str
    value: float | int | str | None


# -- what happened ---------------------------------------------------------------------------------------------------


class SinkReceipt(AnswerModel):
    """What a sink published of the batches after `after` through `through` of its task."""

    sink: str
    task: str
    """Empty if nobody kept a receipt of it."""
    generation: int
    checkpoint: int
    """The checkpoint for which it was pre-committed."""
    after: int
    through: int
    rows: int | None
    hash: str | None
    """A sum over what was published that does not depend on its order; null for sinks that have none."""
    sources: dict[str, list[str | None]] | None
    """Of each source, its offsets before and after; null before the first."""
    channels: dict[str, list[str | None]] | None
    """Of each channel, the upstream batches before and after."""
    place: str | None
    committable: str | None
    """Null in lists, and where it is too long to be kept."""
    pre_committed_ms: int | None
    committed_ms: int | None
    """Null while it is not known to be committed."""
    published_with: int | None
    """The checkpoint with which it was published: a later one, if its own was given up."""
    recovered: bool
    in_history: bool
    """Whether the history has it, or only the record of a checkpoint that is kept."""


class CheckpointReceipts(AnswerModel):
    """What each sink published for one checkpoint."""

    id: int
    receipts: list[SinkReceipt]


class JobReceiptPage(AnswerModel):
    """A page of receipts, the newest first."""

    receipts: list[SinkReceipt]
    unreadable: int
    """How many of this page cannot be read."""
    next_before: str | None


class Transactions(AnswerModel):
    """Transactions in doubt: decided by the newest checkpoint, and not known to be committed."""

    in_doubt: list[SinkReceipt]


class JobEvents(AnswerModel):
    """A page of events, the newest last."""

    events: list[dict[str, Any]]
    """As docs/cli.md lists them, each with its `position`."""
    next_before: str | None
    """`before` of the next, older page. Null if there is none."""


class LogFileInfo(AnswerModel):
    """The log of one run on this machine."""

    name: str
    pid: int
    size: int
    mtime: int
    running: bool


class JobLogs(AnswerModel):
    """The last lines of a log."""

    logs: list[LogFileInfo]
    """The newest first. Empty if the job was never run on this machine."""
    name: str | None
    """The one that lines are from."""
    lines: list[str]


# -- diagnosis -------------------------------------------------------------------------------------------------------


class DiagnosisFinding(AnswerModel):
    """Something that is not in order: its cause, what shows it, and what to change."""

    rule: str
    """The id of the rule that found it, as in docs/diagnosis.md."""
    name: str
    """The cause, in words."""
    verdict: Literal["note", "warning", "problem"]
    evidence: str
    advice: str
    setting: str
    """The exact name of what to change."""
    value: str
    """What to try first. Empty where only the user can know."""
    tasks: list[str]
    checkpoints: list[int]
    """Checkpoints that show it, the oldest first."""


class DiagnosisCounts(AnswerModel):
    """Findings by how bad they are."""

    ok: int
    """Always 0: what is in order is not told."""
    note: int
    warning: int
    problem: int


class JobDiagnosis(AnswerModel):
    """What is wrong with a job, as far as is recorded of it."""

    job: str
    at: int
    ok: bool
    """Whether there is no problem."""
    counts: DiagnosisCounts
    rules: list[str]
    """The ids of all rules."""
    unknown: list[str]
    """Those of them that had nothing to judge by, or not enough yet."""
    findings: list[DiagnosisFinding]
    """The worst first."""


# -- looking into a job that runs ------------------------------------------------------------------------------------


class FlameNode(AnswerModel):
    """A frame, and what it called."""

    name: str
    """`root`, then a thread or a process, then frames. `(others)` has what is too small to be drawn."""
    value: int
    """How often it was seen."""
    children: list["FlameNode"]


class FlameGraph(AnswerModel):
    """Stacks that were sampled on demand. Whoever asks first gets no `data` yet: ask again in a second."""

    endTimestamp: int | None  # noqa: N815 - Flink's name
    """When the last sample was taken."""
    data: FlameNode | None
    type: Literal["full", "on_cpu", "off_cpu"]
    subject: Literal["driver", "driver-python", "python-workers"]
    status: Literal["COMPLETED", "SAMPLING", "FAILED"]
    """With SAMPLING, `data` is what was seen before, if it is not older than ten minutes."""
    samples: int | None
    took_ms: int | None
    refresh_ms: int
    """A flame graph is not sampled again for this long."""
    why: str | None
    """Why it could not be sampled, and what to do."""


class WaitingTask(AnswerModel):
    """A task that a checkpoint waits for."""

    task: str
    cut: bool
    """Whether its snapshot is under way; if not, the barrier has not met it on every input."""
    batch: int
    """The batch after the last that was committed."""
    doing: str | None
    """What its query is at. Null: nothing that should come to an end, such as a batch that waits to be admitted."""
    for_ms: int | None
    place: str | None
    """Where that is, in a line: with `stacks=true`."""
    stack: list[str]
    """The Python stack of its batch in the job's process, the outermost frame first: with `stacks=true`."""


class WorkerStack(AnswerModel):
    """A Python process of Spark's that is at something, for whichever task."""

    pid: int
    process: str
    thread: str
    stack: list[str]


class CheckpointWaiting(AnswerModel):
    """What a checkpoint waits for. Nothing, if it is not under way."""

    id: int
    waiting_for: list[WaitingTask]
    workers: list[WorkerStack]
    """With `stacks=true`: busy ones on this machine."""
    workers_missing: str | None
    """Why the stacks of workers cannot be had, and what to do."""


# -- the state of kept checkpoints -----------------------------------------------------------------------------------


class KeptStateOperator(AnswerModel):
    """An operator that a checkpoint has state of."""

    name: str
    """Its uid, or `TASK/NUMBER` where a task has several and nobody knows which of them is whose."""
    task: str
    number: int
    """As Spark numbers the operators of a query."""
    kind: str
    """What Spark calls it."""
    partitions: int
    states: list[str]
    """What can be read of it: state variables and `timers` of a processor, `left` and `right` of a join, or `all`."""
    uids: list[str]
    """Whose state it may be."""


class KeptState(AnswerModel):
    """Of which operators a checkpoint has state."""

    checkpoint: int
    operators: list[KeptStateOperator]


class StateRow(AnswerModel):
    """A row of state, as JSON; times are in UTC."""

    partition: int
    key: Any
    value: Any


class StateRows(AnswerModel):
    """Rows of one state, in no order."""

    checkpoint: int
    operator: str
    state: str
    rows: list[StateRow]
    more: bool
    """Whether there are more than were asked for."""


class StateChange(AnswerModel):
    """A key whose value is another."""

    change: Literal["added", "removed", "changed"]
    key: Any
    before: Any
    after: Any


class StateDifference(AnswerModel):
    """What differs between two checkpoints, in no order."""

    checkpoint: int
    """The later one: what is there."""
    before: int
    operator: str
    state: str
    changes: list[StateChange]
    more: bool


# -- operations ------------------------------------------------------------------------------------------------------


class CheckpointTrigger(AskModel):
    """Take a checkpoint now."""

    checkpointType: Literal["CONFIGURED"] = "CONFIGURED"  # noqa: N815 - Flink's name
    triggerId: str | None = TriggerId  # noqa: N815 - Flink's name
    timeout_s: float = Timeout


class SavepointTrigger(AskModel):
    """Take a savepoint, and stop then if `cancel-job` is true."""

    cancel_job: bool = Field(default=False, alias="cancel-job")
    target_directory: str | None = Field(default=None, alias="target-directory", min_length=1, max_length=4096)
    """Where it is written as well: an absolute path or a URI, empty or not there yet."""
    formatType: Literal["NATIVE"] = "NATIVE"  # noqa: N815 - Flink's name
    triggerId: str | None = TriggerId  # noqa: N815 - Flink's name
    timeout_s: float = Timeout


class StopTrigger(AskModel):
    """Take a savepoint, commit all that it pre-committed, then end."""

    drain: bool = False
    """First end the sources where they stand, and let all that was read come out, open windows too. For good."""
    targetDirectory: str | None = Field(default=None, min_length=1, max_length=4096)  # noqa: N815 - Flink's name
    """Where the savepoint is written as well: an absolute path or a URI, empty or not there yet."""
    formatType: Literal["NATIVE"] = "NATIVE"  # noqa: N815 - Flink's name
    triggerId: str | None = TriggerId  # noqa: N815 - Flink's name
    timeout_s: float = Timeout


class CancelTrigger(AskModel):
    """End at once."""

    abandon: list[str] = Field(default_factory=list)
    """Sinks whose commits are given up."""
    reason: str | None = None
    """Why; needed if commits are given up, and written into the history."""
    triggerId: str | None = TriggerId  # noqa: N815 - Flink's name
    timeout_s: float = Timeout


class PlainTrigger(AskModel):
    """Nothing to say but how long to wait, and under which name."""

    triggerId: str | None = TriggerId  # noqa: N815 - Flink's name
    timeout_s: float = Timeout


class LabelTrigger(AskModel):
    """Call a savepoint something; an empty text takes its label away."""

    label: str = Field(max_length=200)
    triggerId: str | None = TriggerId  # noqa: N815 - Flink's name
    timeout_s: float = Timeout


class TriggerResponse(AnswerModel):
    """Accepted: ask for what becomes of it by this id."""

    request_id: str = Field(alias="request-id")


class QueueStatus(AnswerModel):
    """Whether it is over."""

    id: Literal["IN_PROGRESS", "COMPLETED"]


class FailureCause(AnswerModel):
    """Why it was not done."""

    failure_class: Literal["failed", "refused"] = Field(alias="class")
    """refused: the job would not; failed: it tried."""
    stack_trace: str = Field(alias="stack-trace")
    """What the job said."""


class OperationResult(AnswerModel):
    """What came of it."""

    checkpointId: int | None  # noqa: N815 - Flink's name
    location: str | None
    """Where a savepoint is."""
    failure_cause: FailureCause | None = Field(alias="failure-cause")


class OperationStatus(AnswerModel):
    """An operation, and what became of it."""

    status: QueueStatus
    operation: OperationResult | None
    """Null while it is in progress."""
    request_id: str = Field(alias="request-id")
    kind: Literal["checkpoint", "savepoint", "stop", "cancel", "hold", "release", "delete", "label"]
    checkpoint: int | None
    """The checkpoint that it is about, for hold, release, delete and label."""
    outcome: Literal["done", "failed", "refused"] | None
    text: str
    """What the job said last of it."""
    notices: int
    """How often it has said something new: `after` of the next question, to wait for more."""
    begun_ms: int
    ended_ms: int | None


class Operations(AnswerModel):
    """Those that are under way, and the last ones that are over; the newest first."""

    operations: list[OperationStatus]
