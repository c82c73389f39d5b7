"""Run a campaign: ``python -m tests.kills --group transactions --rounds 20 --report docs/reports``.

Exit code 0 if every way had every row once, 1 if not.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.kills.campaign import MASTER, Campaign, Report, Round
from tests.kills.ground import Ground
from tests.kills.ways import GROUPS, WAYS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description="Kill, and count what is left.")
    parser.add_argument("--group", choices=GROUPS, required=True, help="the ways that the rows take")
    parser.add_argument("--rounds", type=int, default=20, help="so many kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the report into this directory")
    parser.add_argument("--only", choices=sorted(WAYS), action="append", default=[], help="this way alone, or these")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    if arguments.report is not None and not arguments.report.is_dir():
        parser.error(f"--report: there is no directory {arguments.report}")
    with tempfile.TemporaryDirectory(prefix="headgate-kills-") as directory, Ground(Path(directory)) as ground:
        campaign = Campaign(ground, arguments.group, arguments.seed, ways=tuple(arguments.only))
        report = campaign.run(arguments.rounds, _tell)
    text = as_text(report)
    sys.stdout.write(text)
    if arguments.report is not None:
        (arguments.report / f"{report.group}.md").write_text(text, encoding="utf-8")
        (arguments.report / f"{report.group}.json").write_text(as_json(report), encoding="utf-8")
    return 0 if report.exact else 1


def _tell(done: Round) -> None:
    now = time.strftime("%H:%M:%S")
    sys.stderr.write(f"{now}  round {done.number}: {done.victim}, after {done.checkpoints} checkpoints\n")
    sys.stderr.flush()


def as_text(report: Report) -> str:
    """For people."""
    verdict = "exactly once" if report.exact else "NOT exactly once"
    command = f"python -m tests.kills --group {report.group} --rounds {len(report.rounds)} --seed {report.seed}"
    lines = [
        f"# Kills: {report.group}",
        "",
        f"{len(report.rounds)} rounds of SIGKILL, seed {report.seed}, on `{MASTER}`; {report.rows} rows went in, and",
        f"each of them went out by every way below. {report.seconds / 60:.0f} minutes. Verdict: **{verdict}**.",
        "",
        "| way out | rows found by its reader | lost | doubled |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {name} | {found} | {lost} | {doubled} |" for name, (found, lost, doubled) in report.found.items()),
        "",
        "| round | killed | in generation | after checkpoints |",
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
