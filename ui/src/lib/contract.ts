// Written by scripts/ui_contract.py from headgate/serve/models.py: do not edit.

export interface CancelTrigger {
  abandon?: string[];
  reason?: string | null;
  triggerId?: string | null;
  timeout_s?: number;
}

export interface CheckpointAlignment {
  duration: number | null;
  persisted: number | null;
}

export interface CheckpointConfig {
  mode: "exactly_once" | "at_least_once" | "at_most_once";
  interval: number | null;
  timeout: number;
  min_pause: number;
  max_concurrent: number;
  tolerable_failed_checkpoints: number;
  unaligned_checkpoints: boolean;
  aligned_checkpoint_timeout: number | null;
  externalization: Externalization;
  checkpoints_after_tasks_finish: boolean;
  checkpoint_storage: string;
  state_backend: string;
  state_changelog_enabled: boolean;
  changelog_periodic_materialization_interval: number | null;
  num_retained: number;
  max_batches_ahead: number | null;
  working_directory: string | null;
}

export interface CheckpointCounts {
  total: number;
  in_progress: number;
  completed: number;
  failed: number;
  restored: number;
  savepoints: number;
}

export interface CheckpointPhases {
  sync: number | null;
  async: number | null;
}

export interface CheckpointProgress {
  id: number;
  is_savepoint: boolean;
  trigger_timestamp: number;
  unaligned: boolean;
  cut: string[];
  acknowledged: string[];
  waiting: string[];
}

export interface CheckpointReceipts {
  id: number;
  receipts: SinkReceipt[];
}

export interface CheckpointStatistics {
  id: number;
  status: "IN_PROGRESS" | "COMPLETED" | "FAILED";
  is_savepoint: boolean;
  checkpoint_type: "CHECKPOINT" | "UNALIGNED_CHECKPOINT" | "SAVEPOINT";
  savepointFormat: "NATIVE" | null;
  trigger_timestamp: number | null;
  latest_ack_timestamp: number | null;
  end_to_end_duration: number | null;
  checkpointed_size: number | null;
  state_size: number | null;
  persisted_data: number | null;
  files: number | null;
  num_subtasks: number | null;
  num_acknowledged_subtasks: number | null;
  tasks: Record<string, TaskCheckpointStatistics>;
  external_path: string | null;
  discarded: boolean;
  failure_timestamp: number | null;
  failure_message: string | null;
  generation: number | null;
  unaligned: boolean | null;
  pre_commit_ms: number | null;
  publish_ms: number | null;
  commit_ms: number | null;
  retries: number | null;
  restarts: number | null;
  kept: boolean;
  held: boolean;
  copied: boolean;
}

export interface CheckpointSummary {
  end_to_end_duration: StatsSummary;
  checkpointed_size: StatsSummary;
  state_size: StatsSummary;
  persisted_data: StatsSummary;
  pre_commit_ms: StatsSummary;
  publish_ms: StatsSummary;
  commit_ms: StatsSummary;
  files: StatsSummary;
}

export interface CheckpointTrigger {
  checkpointType?: "CONFIGURED";
  triggerId?: string | null;
  timeout_s?: number;
}

export interface CheckpointWaiting {
  id: number;
  waiting_for: WaitingTask[];
  workers: WorkerStack[];
  workers_missing: string | null;
}

export interface CheckpointingStatistics {
  counts: CheckpointCounts;
  summary: CheckpointSummary | null;
  latest: LatestCheckpoints;
  history: CheckpointStatistics[];
  next_before: number | null;
  unreadable: number;
}

export interface DashboardConfiguration {
  "refresh-interval": number;
  "timezone-name": string;
  "timezone-offset": number;
  "headgate-version": string;
  features: Features;
  process: ProcessInfo;
}

export interface DiagnosisCounts {
  ok: number;
  note: number;
  warning: number;
  problem: number;
}

export interface DiagnosisFinding {
  rule: string;
  name: string;
  verdict: "note" | "warning" | "problem";
  evidence: string;
  advice: string;
  setting: string;
  value: string;
  tasks: string[];
  checkpoints: number[];
}

export interface ErrorResponse {
  errors: string[];
}

export interface ExceptionEntry extends ExceptionInfo {
  concurrentExceptions: ExceptionInfo[];
}

export interface ExceptionHistory {
  entries: ExceptionEntry[];
  truncated: boolean;
}

export interface ExceptionInfo {
  exceptionName: string;
  timestamp: number | null;
  stacktrace: string;
  taskName: string | null;
  endpoint: string | null;
  taskManagerId: string | null;
  failureLabels: Record<string, string>;
  message: string;
  position: string;
}

export interface ExecutionConfig {
  "restart-strategy": string;
  "job-parallelism": number | null;
  "user-config": Record<string, string>;
}

export interface Externalization {
  enabled: boolean;
  delete_on_cancellation: boolean;
}

export interface FailureCause {
  class: "failed" | "refused";
  "stack-trace": string;
}

export interface Features {
  "web-cancel": boolean;
  "web-history": boolean;
  "web-submit": boolean;
  "web-rescale": boolean;
}

export interface FlameGraph {
  endTimestamp: number | null;
  data: FlameNode | null;
  type: "full" | "on_cpu" | "off_cpu";
  subject: "driver" | "driver-python" | "python-workers";
  status: "COMPLETED" | "SAMPLING" | "FAILED";
  samples: number | null;
  took_ms: number | null;
  refresh_ms: number;
  why: string | null;
}

export interface FlameNode {
  name: string;
  value: number;
  children: FlameNode[];
}

export interface HistoryConfiguration {
  max_checkpoints: number;
  max_bytes: number;
}

export interface JobBackpressure {
  vertices: VertexBackpressure[];
}

export interface JobConfiguration {
  jid: string;
  name: string;
  "execution-config": ExecutionConfig | null;
  master: string | null;
  state_backend: string | null;
  batch_interval: number | null;
  latency: number | null;
  history: HistoryConfiguration | null;
  versions: Record<string, string>;
}

export interface JobDetails extends JobSummary {
  isStoppable: boolean;
  now: number;
  leader: string | null;
  generation: number | null;
  timestamps: Record<string, number>;
  uptime: number | null;
  vertices: Vertex[];
  "status-counts": Record<string, number>;
  plan: JobGraph;
  sinks: SinkFigures[];
  spark_ui: string | null;
  in_progress: CheckpointProgress[];
  last_failure: LastFailure | null;
  stalled: string[];
}

export interface JobDiagnosis {
  job: string;
  at: number;
  ok: boolean;
  counts: DiagnosisCounts;
  rules: string[];
  unknown: string[];
  findings: DiagnosisFinding[];
}

export interface JobEvents {
  events: (Record<string, unknown>)[];
  next_before: string | null;
}

export interface JobExceptions {
  exceptionHistory: ExceptionHistory;
  root: ExceptionInfo | null;
  next_before: string | null;
}

export interface JobGraph {
  jid: string;
  name: string;
  type: "STREAMING";
  guarantee: string | null;
  because: string[];
  state_partitions: number | null;
  nodes: PlanNode[];
  edges: PlanEdge[];
}

export interface JobLogs {
  logs: LogFileInfo[];
  name: string | null;
  lines: string[];
}

export interface JobPlan {
  plan: JobGraph;
}

export interface JobReceiptPage {
  receipts: SinkReceipt[];
  unreadable: number;
  next_before: string | null;
}

export interface JobRestarts {
  counts: RestartCounts;
  history: RestartInfo[];
  next_before: string | null;
}

export interface JobStatus {
  status: "CREATED" | "INITIALIZING" | "RUNNING" | "RESTARTING" | "CANCELLING" | "FINISHED" | "CANCELED" | "FAILED" | "SUSPENDED" | "RECONCILING";
  view: Record<string, unknown>;
}

export interface JobSummary {
  jid: string;
  name: string;
  state: "CREATED" | "INITIALIZING" | "RUNNING" | "RESTARTING" | "CANCELLING" | "FINISHED" | "CANCELED" | "FAILED" | "SUSPENDED" | "RECONCILING";
  phase: "new" | "starting" | "running" | "restarting" | "closing" | "finished" | "stopped" | "cancelled" | "failed" | "deposed" | "interrupted" | "crashed" | "unknown" | "damaged";
  text: string | null;
  "start-time": number | null;
  "end-time": number | null;
  duration: number | null;
  "last-modification": number | null;
  tasks: TaskCounts;
  storage: string;
  live: boolean;
  last_checkpoint: LastCheckpoint | null;
  restarts: RestartCounts;
}

export interface Jobs {
  jobs: JobSummary[];
}

export interface KeptState {
  checkpoint: number;
  operators: KeptStateOperator[];
}

export interface KeptStateOperator {
  name: string;
  task: string;
  number: number;
  kind: string;
  partitions: number;
  states: string[];
  uids: string[];
}

export interface LabelTrigger {
  label: string;
  triggerId?: string | null;
  timeout_s?: number;
}

export interface LastCheckpoint {
  id: number;
  kind: "checkpoint" | "savepoint";
  completed_ms: number | null;
  age_ms: number | null;
  duration_ms: number | null;
}

export interface LastFailure {
  at: number | null;
  task: string | null;
  class: string | null;
  message: string | null;
}

export interface LatestCheckpoints {
  completed: CheckpointStatistics | null;
  savepoint: CheckpointStatistics | null;
  failed: CheckpointStatistics | null;
  restored: RestoredCheckpoint | null;
}

export interface LogFileInfo {
  name: string;
  pid: number;
  size: number;
  mtime: number;
  running: boolean;
}

export interface MetricValue {
  id: string;
  value: number | number | string | null;
}

export interface OperationResult {
  checkpointId: number | null;
  location: string | null;
  "failure-cause": FailureCause | null;
}

export interface OperationStatus {
  status: QueueStatus;
  operation: OperationResult | null;
  "request-id": string;
  kind: "checkpoint" | "savepoint" | "stop" | "cancel" | "hold" | "release" | "delete" | "label";
  checkpoint: number | null;
  outcome: "done" | "failed" | "refused" | null;
  text: string;
  notices: number;
  begun_ms: number;
  ended_ms: number | null;
}

export interface Operations {
  operations: OperationStatus[];
}

export interface Overview {
  "headgate-version": string;
  "jobs-running": number;
  "jobs-finished": number;
  "jobs-cancelled": number;
  "jobs-failed": number;
  "jobs-suspended": number;
  storages: string[];
  unreachable: Record<string, string>;
  process: ProcessInfo;
  now: number;
}

export interface PartitionStatistics {
  index: number;
  operator: string | null;
  status: "completed" | "pending_or_failed";
  checkpointed_size: number | null;
  state_size: number;
}

export interface PartitionsSummary {
  checkpointed_size: StatsSummary;
  state_size: StatsSummary;
}

export interface PlainTrigger {
  triggerId?: string | null;
  timeout_s?: number;
}

export interface PlanEdge {
  id: string;
  source: string;
  target: string;
  operator: string;
  input: number;
}

export interface PlanInput {
  num: number;
  id: string;
  channel: string;
  operator: string;
  ship_strategy: string;
  exchange: string;
}

export interface PlanNode {
  id: string;
  operator: string;
  description: string;
  parallelism: number | null;
  inputs: PlanInput[];
  operators: PlanOperator[];
  sources: string[];
  sinks: PlanSink[];
  output_mode: string;
  stateful: boolean;
}

export interface PlanOperator {
  uid: string;
  kind: string;
  inputs: string[];
  stateful: boolean;
  on_branch: boolean;
  description: string;
  where: string;
}

export interface PlanSink {
  uid: string;
  guarantee: string;
  description: string;
  inputs: string[];
  after: string[];
  where: string;
}

export interface ProcessInfo {
  pid: number;
  machine: string;
  job: string | null;
  leader: string | null;
}

export interface QueueStatus {
  id: "IN_PROGRESS" | "COMPLETED";
}

export interface RestartCounts {
  task: number;
  job: number;
}

export interface RestartInfo {
  timestamp: number | null;
  level: "task" | "job";
  task: string | null;
  cause: string;
  class: string | null;
  stacktrace: string | null;
  delay_ms: number | null;
  failed_ms: number | null;
  running_ms: number | null;
  restore_ms: number | null;
  replay_ms: number | null;
  checkpoint: number | null;
  position: string;
}

export interface RestoredCheckpoint {
  id: number;
  restore_timestamp: number | null;
  is_savepoint: boolean;
  external_path: string | null;
  generation: number | null;
}

export interface SavepointInfo extends CheckpointStatistics {
  carried_off: boolean;
  label: string | null;
}

export interface SavepointTrigger {
  "cancel-job"?: boolean;
  "target-directory"?: string | null;
  formatType?: "NATIVE";
  triggerId?: string | null;
  timeout_s?: number;
}

export interface Savepoints {
  savepoints: SavepointInfo[];
}

export interface SinkFigures {
  sink: string;
  task: string;
  open_batches: number | null;
  pre_committed: number;
  due: number;
  in_doubt: number;
  abandoned: number;
  full: boolean;
  pre_commits: number;
  failed_pre_commits: number;
  pre_commits_ms: number;
  committed: number;
  recovered_commits: number;
  failed_commits: number;
  commits_ms: number;
}

export interface SinkReceipt {
  sink: string;
  task: string;
  generation: number;
  checkpoint: number;
  after: number;
  through: number;
  rows: number | null;
  hash: string | null;
  sources: Record<string, (string | null)[]> | null;
  channels: Record<string, (string | null)[]> | null;
  place: string | null;
  committable: string | null;
  pre_committed_ms: number | null;
  committed_ms: number | null;
  published_with: number | null;
  recovered: boolean;
  in_history: boolean;
}

export interface StateChange {
  change: "added" | "removed" | "changed";
  key: unknown;
  before: unknown;
  after: unknown;
}

export interface StateDifference {
  checkpoint: number;
  before: number;
  operator: string;
  state: string;
  changes: StateChange[];
  more: boolean;
}

export interface StateRow {
  partition: number;
  key: unknown;
  value: unknown;
}

export interface StateRows {
  checkpoint: number;
  operator: string;
  state: string;
  rows: StateRow[];
  more: boolean;
}

export interface StatsSummary {
  min: number | null;
  avg: number | null;
  max: number | null;
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  p999: number | null;
}

export interface StopTrigger {
  drain?: boolean;
  targetDirectory?: string | null;
  formatType?: "NATIVE";
  triggerId?: string | null;
  timeout_s?: number;
}

export interface TaskCheckpointDetails extends TaskCheckpointStatistics {
  summary: PartitionsSummary;
  subtasks: PartitionStatistics[];
}

export interface TaskCheckpointStatistics {
  id: number;
  status: "IN_PROGRESS" | "COMPLETED" | "FAILED";
  latest_ack_timestamp: number | null;
  end_to_end_duration: number | null;
  start_delay: number | null;
  snapshot_start: number | null;
  alignment: CheckpointAlignment;
  checkpoint: CheckpointPhases;
  checkpointed_size: number | null;
  state_size: number | null;
  persisted_data: number | null;
  files: number | null;
  num_subtasks: number;
  num_acknowledged_subtasks: number;
}

export interface TaskCounts {
  total: number;
  initializing: number;
  running: number;
  finished: number;
  canceled: number;
}

export interface Transactions {
  in_doubt: SinkReceipt[];
}

export interface TriggerResponse {
  "request-id": string;
}

export interface Vertex {
  id: string;
  name: string;
  status: "CREATED" | "INITIALIZING" | "RUNNING" | "FINISHED" | "CANCELED";
  phase: "starting" | "running" | "restarting" | "stopped" | "finished";
  "start-time": number | null;
  "end-time": number | null;
  duration: number | null;
  parallelism: number | null;
  run: number | null;
  batch: number;
  metrics: VertexMetrics;
  rows_per_s: number | null;
  lag: Record<string, number>;
  wait_ms: number | null;
  batch_rows: number | null;
  busy_ratio: number | null;
  idle_ratio: number | null;
  backpressured_ratio: number | null;
  "backpressure-level": "ok" | "low" | "high" | null;
  watermark_ms: number | null;
  state_rows: number | null;
  state_bytes: number | null;
  skew: number | null;
  skew_of: string | null;
  details: Record<string, unknown>;
}

export interface VertexBackpressure {
  id: string;
  status: "ok" | "unknown";
  "backpressure-level": "ok" | "low" | "high" | null;
  "end-timestamp": number;
  ratio: number | null;
  idleRatio: number | null;
  busyRatio: number | null;
  wait_ms: number | null;
  lag: Record<string, number>;
}

export interface VertexMetrics {
  "read-records": number | null;
  "write-records": number | null;
  "read-bytes": number | null;
  "write-bytes": number | null;
  "accumulated-backpressured-time": number | null;
  "accumulated-busy-time": number | null;
  "accumulated-idle-time": number | null;
}

export interface VertexParallelism {
  lowerBound: number | null;
  upperBound: number | null;
}

export interface VertexResourceRequirements {
  parallelism: VertexParallelism;
}

export interface WaitingTask {
  task: string;
  cut: boolean;
  batch: number;
  doing: string | null;
  for_ms: number | null;
  place: string | null;
  stack: string[];
}

export interface WorkerStack {
  pid: number;
  process: string;
  thread: string;
  stack: string[];
}
