"""Runs the job on a broker of its own, kills it in the middle, runs it again, and counts every order in the summaries.

One rule: sums and counts are worked out a second time here, from the orders, and share no code with the job.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from examples.command import main
from examples.play import Example, Finding, Stage, kill_and_finish
from examples.topics import Record, read_all, write_all
from headgate import audit

JOB = Path(__file__).with_name("job.py")
PARTITIONS = 3
USERS = 12
SPAN = timedelta(hours=3)
"""The orders are spread over this much time, whatever their number: 18 windows for each user."""
LATENESS = timedelta(seconds=3)
BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)
WINDOW = timedelta(minutes=10)


def orders(rows: int) -> Iterator[Record]:
    """Orders in turn from every user, each with a number that counts them, and up to three seconds out of order."""
    rng = random.Random(rows)
    for n in range(rows):
        user = n % USERS
        at = BEGINNING + SPAN * n / rows + LATENESS * rng.random()
        order = {
            "user": f"user-{user}",
            "seq": n // USERS,
            "amount": f"{rng.randrange(100, 50_000) / 100:.2f}",
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        yield Record(user % PARTITIONS, f"user-{user}", order)


def play(stage: Stage) -> None:
    """Write the orders; run, kill, run."""
    stage.kafka.create_topic("orders", PARTITIONS)
    stage.kafka.create_topic("user-summaries", PARTITIONS)
    write_all(stage.kafka, "orders", orders(stage.rows))
    stage.tell.say("input", f"{stage.rows} orders of {USERS} users, over three hours, are in topic orders")
    kill_and_finish(stage, JOB, "user-summaries")


def check(stage: Stage) -> Finding:
    """Count every order in the summaries by its number, and work out every sum again."""
    place = f"kafka://{stage.kafka.servers}"
    stage.tell.say(
        "audit",
        f"headgate audit --source {place}/orders --sink {place}/user-summaries --key user "
        "--source-seq seq --sink-seq seqs",
    )
    verdict = audit.count(
        audit.read(f"{place}/orders", key="user", seq="seq"),
        audit.read(f"{place}/user-summaries", key="user", seq="seqs"),
    )
    wanted: dict[tuple[str, datetime], list[Decimal]] = defaultdict(list)
    for order in read_all(stage.kafka, "orders"):
        at = datetime.fromisoformat(order["at"])
        wanted[order["user"], at - (at - BEGINNING) % WINDOW].append(Decimal(order["amount"]))
    wrong = []
    summaries = read_all(stage.kafka, "user-summaries")
    for summary in summaries:
        amounts = wanted[summary["user"], datetime.fromisoformat(summary["begins"])]
        if (summary["orders"], Decimal(summary["total"])) != (len(amounts), sum(amounts)):
            wrong.append(
                f"{summary['user']}, {summary['begins']}: {summary['orders']} orders, {summary['total']} in all; "
                f"there were {len(amounts)}, {sum(amounts)}"
            )
    stage.tell.say("audit", f"{len(summaries) - len(wrong)} of {len(wanted)} windows have the right sum and count")
    return Finding(verdict, tuple(wrong))


if __name__ == "__main__":
    main(
        Example(
            title="Exactly-once ETL: orders from Kafka, summed up in windows, to Kafka",
            facts=(
                "topic orders -> watermarks -> 10-minute windows of each user, sum and count -> topic user-summaries",
                "In the middle the job is killed with SIGKILL and started again; then every order is counted",
            ),
            rows=20_000,
            output="user-summaries",
            play=play,
            audit=check,
        )
    )
