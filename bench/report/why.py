"""Why a bar was missed, as far as a profile shows it. Keys are a case and a bar of it, or a case for all its bars."""

from collections.abc import Mapping

WHY: Mapping[tuple[str, str], str] = {
    ("etl", "windows, defaults and own best, RocksDB"): (
        "Four batches of 10,000 to 2 million rows, a second in all, lead to the right size; after that both are alike. "
        "In a job of more rows that second counts for less (decision 0080)."
    ),
    ("kafka", ""): (
        "Plain Spark, at least once, needs 0.9 of our CPU for a row, and more than Flink: most of it is Spark's own. "
        "Not profiled further."
    ),
    ("exception", ""): (
        "Of 1.4 s, 0.2 s are the restart's delay, and 0.2 s pass until the failure is told. The query that goes on "
        "starts a Python planner of its own, and Spark closes the state stores of the query before, with a process for "
        "each directory that it deletes, before it loads its state: its first batch takes 0.5 to 0.9 s (decision 0081)."
    ),
    ("executor-killed", ""): (
        "For 3 to 4 s no batch is committed. The rows of the one that was hurt are in the checkpoint after that, those "
        "that have come in since in the next, a second later."
    ),
    ("latency-200ms", ""): (
        "A row waits for the end of the batch under way, for its own batch and for the next checkpoint. A batch takes "
        "130 to 150 ms here, of which 5 ms are planning; Flink has no batches."
    ),
}
