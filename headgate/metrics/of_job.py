"""Metrics of the job, its checkpoints and its sinks. One rule: a row for each, and nothing but rows."""

from headgate.metrics.kinds import COUNTER, GAUGE, MS, rows_of
from headgate.metrics.reading import (
    checkpoint_phases,
    counted,
    failures,
    in_progress,
    last_ms,
    number,
    of_checkpoint_tasks,
    of_completed,
    of_sinks,
    restored_at,
    stalled,
    state_times,
    states,
    total,
)

JOB = [
    *rows_of(
        GAUGE,
        ("state",),
        [("job_state", "1 for the state that the job is in, 0 for all others", "<jobStatus>State", states)],
    ),
    *rows_of(
        GAUGE,
        (),
        [
            (
                "job_uptime_seconds",
                "Time since this process began to lead the job",
                "uptime",
                number("uptime_ms", per=MS),
            ),
            ("job_generation", "The generation that runs", "", number("generation")),
            ("job_stalled", "Things that stand still", "", stalled),
        ],
    ),
    *rows_of(
        COUNTER,
        ("state",),
        [
            (
                "job_state_time_seconds_total",
                "Time in each state, since this process began",
                "<jobStatus>TimeTotal",
                state_times("total_ms"),
            )
        ],
    ),
    *rows_of(
        GAUGE,
        ("state",),
        [
            (
                "job_state_current_seconds",
                "Time since the job came into the state that it is in, 0 for all others",
                "<jobStatus>Time",
                state_times("current_ms"),
            )
        ],
    ),
    *rows_of(
        GAUGE,
        (),
        [
            (
                "job_downtime_seconds",
                "Time for which the whole job has been going back, 0 while it runs",
                "downtime",
                number("downtime_ms", per=MS),
            ),
            (
                "job_restored_timestamp_seconds",
                "When this process last went on from a checkpoint, in seconds since 1970",
                "lastCheckpointRestoreTimestamp",
                restored_at,
            ),
        ],
    ),
    *rows_of(
        COUNTER,
        ("level",),
        [
            (
                "job_restarts_total",
                "Restarts of a task, or of the whole job",
                "numRestarts, fullRestarts",
                counted("restarts"),
            ),
            ("job_restores_total", "Recoveries after which all tasks concerned were up", "", counted("restores")),
        ],
    ),
    *rows_of(
        GAUGE,
        ("level",),
        [
            (
                "job_restore_last_seconds",
                "What the last recovery took, without the delay of the restart strategy, until its tasks were up",
                "JobInitialization (span)",
                last_ms("restore_ms"),
            ),
            (
                "job_replay_last_seconds",
                "What it then took until its tasks were where they had been",
                "",
                last_ms("replay_ms"),
            ),
        ],
    ),
    *rows_of(
        COUNTER,
        ("task", "class"),
        [("task_failures_total", "Failures of a task, by who must act", "taskFailures", failures)],
    ),
]

CHECKPOINTS = [
    *rows_of(
        COUNTER,
        ("kind", "outcome"),
        [
            (
                "checkpoints_total",
                "Checkpoints and savepoints that completed or failed",
                "numberOfCompletedCheckpoints, numberOfFailedCheckpoints, totalNumberOfCheckpoints",
                counted("checkpoints"),
            )
        ],
    ),
    *rows_of(
        GAUGE,
        (),
        [
            ("checkpoints_in_progress", "Checkpoints under way", "numberOfInProgressCheckpoints", in_progress),
            (
                "checkpoint_last_id",
                "The last completed checkpoint, also of an earlier process",
                "lastCompletedCheckpointId",
                number("last_checkpoint", "id"),
            ),
            (
                "checkpoint_last_completed_timestamp_seconds",
                "When it completed, in seconds since 1970",
                "lastCheckpointCompletedTimestamp",
                number("last_checkpoint", "completed_ms", per=MS),
            ),
            (
                "checkpoint_last_duration_seconds",
                "What it took, from the trigger to its record in the storage",
                "lastCheckpointDuration",
                number("last_checkpoint", "duration_ms", per=MS),
            ),
            (
                "checkpoint_last_full_size_bytes",
                "Bytes that the last checkpoint of this process names",
                "lastCheckpointFullSize",
                of_completed("total_bytes"),
            ),
            (
                "checkpoint_last_size_bytes",
                "Bytes in it that no checkpoint had named before",
                "lastCheckpointSize",
                of_completed("new_bytes"),
            ),
            (
                "checkpoint_last_in_flight_bytes",
                "Bytes in flight on channels in it",
                "lastCheckpointPersistedData",
                of_completed("in_flight_bytes"),
            ),
            ("checkpoint_last_files", "Files that it names", "", of_completed("files")),
        ],
    ),
    *rows_of(
        GAUGE,
        ("phase",),
        [
            (
                "checkpoint_last_phase_seconds",
                "What its phases after the snapshots took: pre_commit (of the slowest sink), publish, commit",
                "",
                checkpoint_phases,
            )
        ],
    ),
    *rows_of(
        COUNTER,
        (),
        [
            (
                "checkpoint_duration_seconds_total",
                "Durations of completed checkpoints, in sum",
                "lastCheckpointDuration",
                total("durations_ms", MS),
            ),
            (
                "checkpoint_commit_retries_total",
                "Commits of checkpoints that were tried again",
                "checkpointNumRetries",
                total("commit_retries"),
            ),
        ],
    ),
    *rows_of(
        GAUGE,
        ("task", "phase"),
        [
            (
                "task_checkpoint_phase_seconds",
                "A task's part of the last checkpoint: start_delay, alignment, sync, async",
                "checkpointStartDelayNanos, checkpointAlignmentTime",
                of_checkpoint_tasks({name: f"{name}_ms" for name in ("start_delay", "alignment", "sync", "async")}, MS),
            )
        ],
    ),
    *rows_of(
        GAUGE,
        ("task", "part"),
        [
            (
                "task_checkpoint_bytes",
                "Bytes of a task in the last checkpoint: full, new, in_flight",
                "",
                of_checkpoint_tasks({"full": "total_bytes", "new": "new_bytes", "in_flight": "in_flight_bytes"}, 1),
            )
        ],
    ),
]

SINKS = [
    *rows_of(
        GAUGE,
        ("sink",),
        [
            (
                "sink_committables_pre_committed",
                "Transactions that wait for their checkpoint to complete",
                "pendingCommittables",
                of_sinks("pre_committed"),
            ),
            ("sink_committables_due", "Transactions that are to be committed", "pendingCommittables", of_sinks("due")),
            (
                "sink_transactions_in_doubt",
                "Of those, how many an earlier generation left or whose commit has failed",
                "",
                of_sinks("in_doubt"),
            ),
            ("sink_full", "1 while a batch waits until something is committed", "", of_sinks("full")),
        ],
    ),
    *rows_of(
        COUNTER,
        ("sink",),
        [
            (
                "sink_pre_commits_total",
                "Pre-commits that went through: transactions that were handed over to be committed",
                "totalCommittables",
                of_sinks("pre_commits"),
            ),
            ("sink_pre_commit_failures_total", "Pre-commits that failed", "", of_sinks("failed_pre_commits")),
            (
                "sink_pre_commit_seconds_total",
                "Time spent in pre-commits that went through",
                "",
                of_sinks("pre_commits_ms", MS),
            ),
            ("sink_commits_total", "Transactions that were committed", "successfulCommittables", of_sinks("committed")),
            (
                "sink_recovered_commits_total",
                "Of those, how many an earlier generation had pre-committed",
                "",
                of_sinks("recovered_commits"),
            ),
            (
                "sink_commit_failures_total",
                "Tries of a commit that failed; each is followed by another",
                "retriedCommittables",
                of_sinks("failed_commits"),
            ),
            ("sink_commit_seconds_total", "Time spent in commits that went through", "", of_sinks("commits_ms", MS)),
            (
                "sink_abandoned_total",
                "Transactions that somebody gave up by name",
                "failedCommittables",
                of_sinks("abandoned"),
            ),
        ],
    ),
]
