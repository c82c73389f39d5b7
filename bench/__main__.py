"""``make bench``: Headgate beside its peers, in turns, each in processes of its own.

``python -m bench`` runs all cases and writes the reports; ``--case etl --rounds 5`` runs one. What is finished is kept
in ``build/bench/results.json``, so a run that was broken off goes on; ``--fresh`` begins anew.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from bench import machine, parts
from bench.catalogue import CASES
from bench.peers import flink
from bench.peers.installing import BUILD, ROOT, MissingPeer
from bench.report import readme, writing
from bench.results import Results
from bench.running import run

ROUNDS = 5
REPORTS = ROOT / "docs" / "reports"


def main(words: Sequence[str]) -> int:
    """Do what the words say."""
    asked = _parser().parse_args(words)
    signal.signal(signal.SIGTERM, _end)
    names = asked.case or [name for name, kind in CASES.items() if kind.quickly is not None or not asked.quick]
    unknown = [name for name in names if name not in CASES and name not in parts.PARTS]
    if unknown:
        print(f"bench: there is no case {unknown[0]}: see `python -m bench --list`", file=sys.stderr)
        return 2
    if asked.list:
        for name, case in CASES.items():
            print(f"{name:<18}{case.title}")
        for name, part in parts.PARTS.items():
            print(f"{name:<18}{part.__doc__ or ''}".splitlines()[0])
        return 0
    try:
        if asked.report:
            return _report(asked.results or BUILD / "results.json")
        flink.install()
        if asked.install:
            return 0
        return _measure(asked, names)
    except MissingPeer as error:
        print(error, file=sys.stderr)
        return 2


def _report(path: Path) -> int:
    results = Results.read(path)
    if not results.cases:
        print(f"bench: nothing was measured into {path}: run `make bench`, or name other --results", file=sys.stderr)
        return 2
    write_reports(results)
    return 0


def _measure(asked: argparse.Namespace, names: Sequence[str]) -> int:
    path = asked.results or BUILD / ("quick.json" if asked.quick else "results.json")
    if asked.fresh:
        path.unlink(missing_ok=True)
    results = Results.read(path)
    results.machine, results.versions = machine.describe(), machine.versions()
    right = True
    for name in names:
        if name in parts.PARTS:
            parts.run(name)
            continue
        kind = CASES[name]
        if asked.quick:
            case = kind(kind.quick, asked.contender or kind.quickly or ())
        else:
            case = kind(kind.full, asked.contender or ())
        rounds = asked.rounds or (1 if asked.quick else min(ROUNDS, kind.rounds_max))
        right = run(case, results, rounds, profile=asked.profile) and right
        results.write()
    if asked.quick or asked.case:
        path.with_suffix(".html").write_text(writing.page(results), encoding="utf-8")
        print(f"\n{writing.summary(results)}\nbench: {path.with_suffix('.html')}")
    else:
        write_reports(results)
    return 0 if right else 1


def write_reports(results: Results) -> None:
    """The JSON and the page below ``docs/reports``, and README's table."""
    (REPORTS / "bench.json").write_text(results.text(), encoding="utf-8")
    (REPORTS / "bench.html").write_text(writing.page(results), encoding="utf-8")
    readme.renew(ROOT / "README.md", results)
    print(f"bench: {REPORTS / 'bench.html'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--contender", action="append", help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, help=f"how often each takes its turn ({ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    parser.add_argument("--profile", action="store_true", help="say where the time goes, from a round more")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--results", type=Path, help="where rounds are kept (build/bench/results.json)")
    parser.add_argument(
        "--report", action="store_true", help="write the reports and README's table, and measure nothing"
    )
    parser.add_argument("--install", action="store_true", help="install the peers, and measure nothing")
    parser.add_argument("--list", action="store_true", help="list the cases")
    return parser


def _end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
