"""The page: bars that were missed first, then each case with its plot, its rounds, its settings and its profile."""

import json
from collections import Counter
from collections.abc import Sequence
from html import escape
from statistics import median
from typing import Any

from bench.bars import BARS, Judged, judge
from bench.catalogue import CASES
from bench.meter import DISTURBED_CORES
from bench.milestones import MARK
from bench.report.style import STYLE
from bench.report.svg import Line, bars, figure
from bench.report.why import WHY
from bench.results import CaseResults, Results, spread

HOW = f"""Contenders take turns in one run, each in processes of its own. What came out is compared with what must come
out before a time counts; a wrong output is no round. CPU is that of the contender and all processes below it. A round
during which others used more than {DISTURBED_CORES} cores is disturbed: its dot is hollow, and it counts only where
there are fewer than three others. Figures are medians; a ratio is the median of the ratios of rounds with the same
number. Ratios carry over to other machines, seconds do not."""


def judged(results: Results) -> list[Judged]:
    """Every bar."""
    return [judge(bar, results.cases, more_is_better=CASES[bar.case].more_is_better) for bar in BARS]


def summary(results: Results) -> str:
    """A line for each bar that was measured."""
    lines = [
        f"{each.verdict:<14}{each.bar.what:<48}{each.shown:>12}  wanted {each.bar.wanted}"
        for each in judged(results)
        if each.seen is not None
    ]
    return "\n".join(lines) or "no bar was measured"


def page(results: Results) -> str:
    """All of it, in one file that needs no other."""
    found = judged(results)
    counts = Counter(each.verdict for each in found)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("met", "missed", "not measured") if counts[verdict])
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>Headgate beside its peers</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body><main>",
        "<h1>Headgate beside its peers</h1>",
        f"<p>{len(BARS)} bars: {said}.</p>",
        _missed(found),
        _bars(found),
        _how(results),
        *(_case(results.cases[name]) for name in CASES if name in results.cases),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _missed(found: Sequence[Judged]) -> str:
    missed = [each for each in found if each.verdict == "missed"]
    if not missed:
        return ""
    items = []
    for each in missed:
        why = WHY.get((each.bar.case, each.bar.what), WHY.get((each.bar.case, ""), ""))
        items.append(
            f"<li><b>{escape(each.bar.what)}</b>: {escape(each.shown)}, wanted {escape(each.bar.wanted)}."
            f" {escape(why)}</li>"
        )
    return f'<section class="missed"><h2>Missed</h2><ul>{"".join(items)}</ul></section>'


def _bars(found: Sequence[Judged]) -> str:
    rows = [
        f"<tr class='{each.verdict.replace(' ', '-')}'><td>{escape(each.bar.what)}</td><td>{escape(each.bar.contender)}"
        f"</td><td>{escape(each.bar.wanted)}</td><td class=n>{escape(each.shown)}</td><td>{each.verdict}"
        f"{' (disturbed)' if each.disturbed else ''}</td><td><a href='#{each.bar.case}'>{each.bar.case}</a></td></tr>"
        for each in found
    ]
    head = "<tr><th>what</th><th>contender</th><th>wanted</th><th>seen</th><th></th><th>case</th></tr>"
    return f"<section><h2>Bars</h2><table>{head}{''.join(rows)}</table></section>"


def _how(results: Results) -> str:
    machine = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in results.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in results.versions.items())
    return f"<section><h2>How</h2><p>{HOW}</p><p>{escape(machine)}.</p><p>{escape(versions)}.</p></section>"


def _case(case: CaseResults) -> str:
    kind = CASES[case.name]
    names = case.contenders()
    rows, lines = [], []
    for name in names:
        values = case.values(name, kind.value)
        own = [each for each in case.rounds if each.contender == name]
        further = "".join(f"<td class=n>{_median(case, name, value)}</td>" for value in kind.also)
        cpu = median(each.cpu_s for each in case.counted(name))
        rows.append(
            f"<tr><td>{escape(name)}</td><td class=n>{figure(median(values))}</td><td class=n>{spread(values):.0%}</td>"
            f"{further}<td class=n>{cpu:.1f}</td><td class=n>{len(values)} of {len(own)}</td></tr>"
        )
        rounds = [(each.values[kind.value], each.disturbed) for each in own]
        lines.append(Line(name, _peer(name), median(values), rounds))
    head = "".join(f"<th>{escape(unit)}</th>" for unit in kind.also.values())
    size = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in case.size.items())
    commits = ", ".join(dict.fromkeys(each.commit for each in case.rounds))
    wrong = "".join(f"<p class=wrong>{escape(each['contender'])}: {escape(each['what'])}</p>" for each in case.failures)
    return (
        f"<section id='{case.name}'><h2>{escape(case.title)}</h2>{bars(case.title, kind.unit, lines)}"
        f"<table><tr><th></th><th>median, {escape(kind.unit)}</th><th>spread</th>{head}<th>CPU s a round</th>"
        f"<th>rounds that count</th></tr>{''.join(rows)}</table>{wrong}"
        f"<p class=small>{escape(size)}. Commit {commits}.</p>"
        f"{_settings(case)}{_profiles(case)}</section>"
    )


def _median(case: CaseResults, name: str, value: str) -> str:
    found = case.median(name, value)
    return "-" if found is None else figure(found)


def _settings(case: CaseResults) -> str:
    items = []
    for name in case.contenders():
        told = {key: value for key, value in case.settings.get(name, {}).items() if value not in ({}, None)}
        shown = json.dumps(told, ensure_ascii=False) if told else "nothing"
        items.append(f"<li><b>{escape(name)}</b>: <code>{escape(shown)}</code></li>")
    return f"<details><summary>What is set</summary><ul>{''.join(items)}</ul></details>"


def _profiles(case: CaseResults) -> str:
    return _milestones(case) + "".join(
        f"<details><summary>Where the time of {escape(name)} goes</summary>{_profile(told)}</details>"
        for name, told in case.profiles.items()
    )


def _milestones(case: CaseResults) -> str:
    found = []
    for name in case.contenders():
        marks = dict.fromkeys(key for each in case.counted(name) for key in each.values if key.startswith(MARK))
        at = {mark: median(case.values(name, mark)) for mark in marks}
        if at:
            at[f"{MARK}the row is visible"] = median(case.values(name, CASES[case.name].value))
            rows = "".join(
                f"<tr><td>{escape(mark.removeprefix(MARK))}</td><td class=n>{seconds:.2f} s</td></tr>"
                for mark, seconds in sorted(at.items(), key=lambda each: each[1])
            )
            found.append(
                f"<details open><summary>Where the time of {escape(name)} goes: medians from the beginning"
                f"</summary><table>{rows}</table></details>"
            )
    return "".join(found)


def _profile(told: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(each['where']))}</td><td class=n>{each['share']:.0%}</td></tr>" for each in told["parts"]
    )
    return f"<p>{escape(told['what'])}</p><table>{rows}</table>"


def _peer(name: str) -> str:
    return next((peer for peer in ("Headgate", "Flink", "Spark") if peer in name), "other").lower()
