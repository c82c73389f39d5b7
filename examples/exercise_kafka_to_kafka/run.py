"""Runs the job on a broker of its own, kills it in the middle, runs it again, and counts every payment.

One rule: balances are worked out a second time here, from the payments, and share no code with the job.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from examples.command import main
from examples.play import Example, Finding, Stage, kill_and_finish
from examples.topics import Record, read_all, write_all
from headgate import audit

JOB = Path(__file__).with_name("job.py")
PARTITIONS = 3
ACCOUNTS = 30


def payments(rows: int) -> Iterator[Record]:
    """Payments in turn of every account, each with a number that counts them."""
    rng = random.Random(rows)
    for n in range(rows):
        account = n % ACCOUNTS
        payment = {"account": f"account-{account}", "seq": n // ACCOUNTS, "cents": rng.randrange(-50_000, 60_000)}
        yield Record(account % PARTITIONS, f"account-{account}", payment)


def play(stage: Stage) -> None:
    """Write the payments; run, kill, run."""
    stage.kafka.create_topic("payments", PARTITIONS)
    stage.kafka.create_topic("balances", PARTITIONS)
    write_all(stage.kafka, "payments", payments(stage.rows))
    stage.tell.say("input", f"{stage.rows} payments of {ACCOUNTS} accounts are in topic payments")
    kill_and_finish(stage, JOB, "balances")


def check(stage: Stage) -> Finding:
    """Count every payment by its number, and work out every balance again."""
    place = f"kafka://{stage.kafka.servers}"
    stage.tell.say("audit", f"headgate audit --source {place}/payments --sink {place}/balances --key account --seq seq")
    verdict = audit.count(
        audit.read(f"{place}/payments", key="account", seq="seq"),
        audit.read(f"{place}/balances", key="account", seq="seq"),
    )
    balance: Counter[str] = Counter()
    wanted = {}
    for payment in sorted(read_all(stage.kafka, "payments"), key=lambda each: int(each["seq"])):
        balance[payment["account"]] += payment["cents"]
        wanted[payment["account"], payment["seq"]] = balance[payment["account"]]
    balances = read_all(stage.kafka, "balances")
    wrong = [
        f"{each['account']}, payment {each['seq']}: a balance of {each['balance']}, should be {should}"
        for each in balances
        if each["balance"] != (should := wanted.get((each["account"], each["seq"])))
    ]
    stage.tell.say("audit", f"{len(balances) - len(wrong)} of {len(balances)} balances are right")
    return Finding(verdict, tuple(wrong[:10]))


if __name__ == "__main__":
    main(
        Example(
            title="First exercise: payments from Kafka, state in between, balances to Kafka",
            facts=(
                "topic payments -> a balance for each account, in keyed state -> topic balances",
                "In the middle the job is killed with SIGKILL and started again; then every payment is counted",
            ),
            rows=20_000,
            output="balances",
            play=play,
            audit=check,
        )
    )
