"""What a benchmark says follows from what was measured."""

from pathlib import Path

import pytest

from bench.bars import BARS, Bar, judge
from bench.catalogue import CASES
from bench.report import readme, writing
from bench.results import CaseResults, Results, Round

ROOT = Path(__file__).parents[2]
JSON = ROOT / "docs" / "reports" / "bench.json"
README = ROOT / "README.md"


def case(**rates: list[float]) -> CaseResults:
    found = CaseResults("etl", "Windows", {"rows": 1})
    for name, values in rates.items():
        for number, value in enumerate(values):
            found.rounds.append(a_round(name, number, value))
    return found


def a_round(name: str, number: int, value: float, *, disturbed: bool = False) -> Round:
    values = {"rows_per_s": value}
    return Round(name, number, values, 1.0, 1.0, 0.0, disturbed, "2026-01-01T00:00:00+00:00", "abc")


def bar(at_least: float | None = None, at_most: float | None = None, against: str | None = "theirs") -> Bar:
    return Bar("rows", "etl", "ours", "rows_per_s", at_least, at_most, against, unit="s")


def test_readmes_table_is_that_of_the_report() -> None:
    text = README.read_text(encoding="utf-8")
    assert readme.renewed(text, Results.read(JSON)) == text, "run `python -m bench --report`"


def test_the_page_is_that_of_the_report() -> None:
    page = JSON.with_suffix(".html").read_text(encoding="utf-8")
    assert page == writing.page(Results.read(JSON)), "run `python -m bench --report`"


def test_another_figure_is_another_table() -> None:
    results = Results.read(JSON)
    before = readme.table(results)
    results.cases["start"] = CaseResults("start", "Start", {}, rounds=[])
    for name in ("Headgate", "Flink SQL"):
        one = a_round(name, 0, 1.0)
        results.cases["start"].rounds.append(Round(**{**one.__dict__, "values": {"first_row_s": 123.0}}))
    assert "| start to the first visible row, s | 123 | 123 |" in readme.table(results) != before


def test_every_bar_names_a_case_and_contenders_that_there_are() -> None:
    for each in BARS:
        kind = CASES[each.case]
        names = {contender.name for contender in kind(kind.full).every()}
        others = [each.against] if isinstance(each.against, str) else list(each.against or ())
        assert {each.contender, *others} <= names, each.what
        assert (each.at_least is None) != (each.at_most is None)


def test_contenders_of_a_case_have_different_names() -> None:
    for kind in CASES.values():
        names = [contender.name for contender in kind(kind.full).every()]
        assert len(set(names)) == len(names)
        assert set(kind.quickly or ()) <= {contender.name for contender in kind(kind.quick).every()}


def test_a_ratio_is_the_median_of_the_ratios_of_rounds() -> None:
    ratios = case(ours=[10, 30, 40], theirs=[10, 10, 20])
    assert judge(bar(2.0), {"etl": ratios}, more_is_better=True).seen == 2.0


@pytest.mark.parametrize(("at_least", "verdict"), [(2.0, "met"), (2.1, "missed")])
def test_more_must_be_as_much_as_is_wanted(at_least: float, verdict: str) -> None:
    assert judge(bar(at_least), {"etl": case(ours=[2], theirs=[1])}, more_is_better=True).verdict == verdict


@pytest.mark.parametrize(("at_most", "verdict"), [(2.0, "met"), (1.9, "missed")])
def test_less_may_be_as_much_as_is_allowed(at_most: float, verdict: str) -> None:
    found = judge(bar(at_most=at_most, against=None), {"etl": case(ours=[2])}, more_is_better=False)
    assert (found.verdict, found.shown) == (verdict, "2 s")


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert judge(bar(1.0), {}, more_is_better=True).verdict == "not measured"
    assert judge(bar(1.0), {"etl": case(ours=[1])}, more_is_better=True).verdict == "not measured"


def test_a_disturbed_round_does_not_count_where_there_are_three_others() -> None:
    found = case(ours=[1, 1, 1])
    found.rounds.append(a_round("ours", 3, 100, disturbed=True))
    assert found.values("ours", "rows_per_s") == [1, 1, 1]
    assert found.disturbed("ours") == 0


def test_disturbed_rounds_count_where_there_are_no_others_and_it_is_said() -> None:
    found = case(theirs=[1])
    found.rounds.append(a_round("ours", 0, 2, disturbed=True))
    judged = judge(bar(1.0), {"etl": found}, more_is_better=True)
    assert (judged.seen, judged.disturbed) == (2, True)


def test_the_best_of_several_is_what_counts() -> None:
    found = case(ours=[10], slow=[1], fast=[5])
    one = Bar("rows", "etl", "ours", "rows_per_s", at_least=3, against=("slow", "fast"))
    assert judge(one, {"etl": found}, more_is_better=True).seen == 2
    assert judge(one, {"etl": found}, more_is_better=False).seen == 10


def test_a_run_goes_on_where_it_was_broken_off(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json", {"cores": 2}, {"Headgate": "1"})
    results.case("etl", "Windows", {"rows": 1}).rounds.append(a_round("ours", 0, 5))
    results.write()
    again = Results.read(tmp_path / "results.json")
    assert again == results
    assert again.case("etl", "Windows", {"rows": 1}).has("ours", 0)
    assert not again.case("etl", "Windows", {"rows": 1}).has("ours", 1)


def test_with_another_size_a_case_begins_anew(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json")
    results.case("etl", "Windows", {"rows": 1}).rounds.append(a_round("ours", 0, 5))
    assert not results.case("etl", "Windows", {"rows": 2}).rounds


def test_missed_bars_stand_first_on_the_page(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.json", {"cores": 2}, {"Headgate": "1"})
    found = results.case("start", "Start", {})
    for name, took in (("Headgate", 20.0), ("Flink SQL", 10.0)):
        found.rounds.append(Round(**{**a_round(name, 0, 1).__dict__, "values": {"first_row_s": took}}))
    page = writing.page(results)
    assert page.index("2.00x") < page.index("<h2>Bars</h2>") < page.index("<svg")
    assert "http" not in page.replace("http-equiv", ""), "it needs nothing from elsewhere"
