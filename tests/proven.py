"""Writes a report of tests that ``make prove`` has run: ``python -m tests.proven REPORT.md RESULTS.xml...``.

One rule: it says what the results say, and of results in which a test failed, or none was run, it makes no report.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

LONGEST = 40
"""At most this many tests are listed, those that took longest."""


def report(title: str, results: Sequence[Path]) -> str:
    """The report as Markdown. Raises ``ValueError`` if a test failed or was skipped, or there is none."""
    cases = [case for path in results for case in ET.parse(path).getroot().iter("testcase")]  # noqa: S314 - ours
    bad = [name(case) for case in cases if any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))]
    if bad:
        raise ValueError(f"{len(bad)} of {len(cases)} tests have not passed: {', '.join(bad[:3])}")
    if not cases:
        raise ValueError("no test was run")
    cases.sort(key=lambda case: -seconds(case))
    lines = [
        f"# Proven: {title}",
        "",
        f"{len(cases)} tests passed, none failed, none was skipped, in {sum(map(seconds, cases)) / 60:.0f} minutes.",
        "",
        "| test | s |",
        "| --- | ---: |",
        *(f"| `{name(case)}` | {seconds(case):.0f} |" for case in cases[:LONGEST]),
    ]
    if len(cases) > LONGEST:
        lines.append(f"| {len(cases) - LONGEST} more | {sum(map(seconds, cases[LONGEST:])):.0f} |")
    return "\n".join(lines) + "\n"


def name(case: ET.Element) -> str:
    """Where a test is, and what it holds."""
    return f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}"


def seconds(case: ET.Element) -> float:
    """How long a test took."""
    return float(case.get("time") or 0)


def main(words: Sequence[str]) -> int:
    """Write the report."""
    target, *results = map(Path, words)
    try:
        target.write_text(report(target.stem, results), encoding="utf-8")
    except (ValueError, OSError, ET.ParseError) as error:
        sys.stderr.write(f"{target}: {error}\n")
        return 1
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
