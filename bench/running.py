"""Rounds of a case, contenders in turns."""

import subprocess
import sys
import traceback
from datetime import UTC, datetime

from bench.case import Case, Contender, WrongOutput
from bench.milestones import MARK
from bench.peers.installing import ROOT, MissingPeer
from bench.results import CaseResults, Results, Round
from bench.worker import Failed


def run(case: Case, results: Results, rounds: int, *, profile: bool = False) -> bool:
    """Do the rounds that are missing. Whether all came out right."""
    record = results.case(case.name, case.title, case.size)
    missing = [
        (number, each) for number in range(rounds) for each in case.contenders() if not record.has(each.name, number)
    ]
    if not missing and not profile:
        return True
    record.settings = {**record.settings, **{each.name: dict(each.settings) for each in case.contenders()}}
    commit = head()
    out: set[str] = set()
    warm: set[str] = set()
    print(f"\n{case.title} ({case.name}): {rounds} rounds, in turns", flush=True)
    try:
        with case:
            for number, contender in missing:
                if contender.name in out:
                    continue
                if not _round(case, record, contender, number, commit, first=contender.name not in warm):
                    out.add(contender.name)
                warm.add(contender.name)
                results.write()
            if profile:
                _profile(case, record, out)
                results.write()
    except MissingPeer:
        raise
    except (Failed, WrongOutput, OSError, RuntimeError) as error:
        traceback.print_exc()
        _fail(record, "all", error)
        results.write()
        return False
    return not out


def _round(case: Case, record: CaseResults, contender: Contender, number: int, commit: str, *, first: bool) -> bool:
    try:
        if first:
            case.warm_up(contender)
        measured = case.round(contender)
    except (Failed, WrongOutput) as error:
        _fail(record, contender.name, error)
        return False
    used = measured.used
    values = {name: float(f"{value:.6g}") for name, value in measured.values.items()}
    done = Round(
        contender.name,
        number,
        values,
        round(used.wall_s, 3),
        round(used.cpu_s, 2),
        round(used.others_cores, 3),
        used.is_disturbed,
        datetime.now(UTC).isoformat(timespec="seconds"),
        commit,
    )
    record.rounds.append(done)
    record.failures = [each for each in record.failures if each["contender"] != contender.name]
    mark = f"  disturbed: others used {used.others_cores:.2f} cores" if used.is_disturbed else ""
    shown = "  ".join(f"{name} {value:,.4g}" for name, value in values.items() if not name.startswith(MARK))
    print(f"  {number} {contender.name:<34} {shown}  cpu {used.cpu_s:.1f} s{mark}", flush=True)
    return True


def _profile(case: Case, record: CaseResults, out: set[str]) -> None:
    """Say where the time of each goes. One that cannot be sampled keeps its rounds."""
    for contender in case.contenders():
        if contender.name not in out:
            try:
                found = case.profile(contender)
            except (Failed, WrongOutput) as error:
                print(f"bench: {case.name}: {contender.name}: no profile: {error}", file=sys.stderr, flush=True)
                continue
            if found:
                record.profiles[contender.name] = dict(found)


def _fail(record: CaseResults, contender: str, error: Exception) -> None:
    text = f"{type(error).__name__}: {error}"
    print(f"bench: {record.name}: {contender}: {text}", file=sys.stderr, flush=True)
    record.failures = [each for each in record.failures if each["contender"] != contender]
    record.failures.append({"contender": contender, "what": text})


def head() -> str:
    """The commit that is measured; with a + if files differ from it."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - git, with our words
    return done.stdout.strip() or "unknown"
