"""Run a campaign: ``python -m tests.kills --group transactions --rounds 20 --report docs/reports``.

With ``--zombies`` processes are not killed: they are frozen, replaced, and woken.

Exit code 0 if every sink had every row once, 1 if not.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.kills.campaign import MASTER, Campaign, Report, Round
from tests.kills.cases import CASES, GROUPS
from tests.kills.ground import Ground
from tests.kills.zombies import Zombies

ABOUT_ZOMBIES = """\
A round freezes every process of the job at the moment below, lets a second one take over and complete checkpoints with
new rows, and wakes the first. Or it freezes the executors while they write, kills their driver, and wakes them when the
next one has taken over. A total counts as stale for each row by which it is behind."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description="Kill, and count what is left.")
    parser.add_argument("--group", choices=GROUPS, required=True, help="the sinks that the rows go to")
    parser.add_argument("--rounds", type=int, default=20, help="this many kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the report into this directory")
    parser.add_argument("--only", choices=sorted(CASES), action="append", default=[], help="this sink alone, or these")
    parser.add_argument("--zombies", action="store_true", help="freeze, replace and wake instead of killing")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if arguments.report is not None and not arguments.report.is_dir():
        parser.error(f"--report: there is no directory {arguments.report}")
    with tempfile.TemporaryDirectory(prefix="headgate-kills-") as directory, Ground(Path(directory)) as ground:
        kind = Zombies if arguments.zombies else Campaign
        campaign = kind(ground, arguments.group, arguments.seed, cases=tuple(arguments.only))
        report = campaign.run(arguments.rounds, _tell)
    text = as_text(report, zombies=arguments.zombies)
    sys.stdout.write(text)
    if arguments.report is not None:
        name = f"zombies-{report.group}" if arguments.zombies else report.group
        (arguments.report / f"{name}.md").write_text(text, encoding="utf-8")
        (arguments.report / f"{name}.json").write_text(as_json(report), encoding="utf-8")
    return 0 if report.exact else 1


def _tell(done: Round) -> None:
    now = time.strftime("%H:%M:%S")
    sys.stderr.write(f"{now}  round {done.number}: {done.victim}, after {done.checkpoints} checkpoints\n")
    sys.stderr.flush()


def as_text(report: Report, *, zombies: bool = False) -> str:
    """For people."""
    verdict = "exactly once" if report.exact else "NOT exactly once"
    command = f"python -m tests.kills --group {report.group} --rounds {len(report.rounds)} --seed {report.seed}"
    command += " --zombies" if zombies else ""
    signals, done = ("SIGSTOP and SIGCONT", "frozen") if zombies else ("SIGKILL", "killed")
    lines = [
        f"# {'Zombies' if zombies else 'Kills'}: {report.group}",
        "",
        f"{len(report.rounds)} rounds of {signals}, seed {report.seed}, on `{MASTER}`; {report.rows} rows went in, and",
        f"each of them went to every sink below. {report.seconds / 60:.0f} minutes. Verdict: **{verdict}**.",
        "",
        *([ABOUT_ZOMBIES, ""] if zombies else []),
        "| sink | rows found by its reader | lost or stale | doubled |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {name} | {found} | {lost} | {doubled} |" for name, (found, lost, doubled) in report.found.items()),
        "",
        f"| round | {done} | in generation | after checkpoints |",
        "| ---: | --- | ---: | ---: |",
        *(f"| {one.number} | {one.victim} | {one.generation} | {one.checkpoints} |" for one in report.rounds),
        "",
        f"Made by `{command} --report docs/reports`.",
    ]
    return "\n".join(lines) + "\n"


def as_json(report: Report) -> str:
    """For programs."""
    fields = {
        "group": report.group,
        "seed": report.seed,
        "rows": report.rows,
        "exact": report.exact,
        "seconds": round(report.seconds, 1),
        "found": {
            name: {"rows": found, "lost": lost, "doubled": doubled}
            for name, (found, lost, doubled) in report.found.items()
        },
        "rounds": [
            {"round": one.number, "killed": one.victim, "generation": one.generation, "checkpoints": one.checkpoints}
            for one in report.rounds
        ],
    }
    return json.dumps(fields, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
