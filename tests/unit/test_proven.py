from pathlib import Path

import pytest

from tests import proven

PASSED = '<testcase classname="tests.sink.test_crash" name="test_a[files]" time="12.4"/>'
FAILED = '<testcase classname="tests.sink.test_crash" name="test_b" time="1"><failure message="no"/></testcase>'
SKIPPED = '<testcase classname="tests.sink.test_crash" name="test_c" time="0"><skipped/></testcase>'


def results(path: Path, *cases: str) -> Path:
    file = path / f"{len(list(path.iterdir()))}.xml"
    file.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    return file


def test_a_report_counts_the_tests_of_all_results_and_lists_the_longest(tmp_path: Path) -> None:
    text = proven.report("long", [results(tmp_path, PASSED), results(tmp_path, *[PASSED.replace("12.4", "60")] * 50)])
    assert "51 tests passed, none failed, none was skipped, in 50 minutes." in text
    assert text.count("| `sink.test_crash::test_a[files]` | 60 |") == proven.LONGEST
    assert text.endswith("| 11 more | 612 |\n")


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ((PASSED, FAILED), "1 of 2 tests have not passed: sink.test_crash::test_b"),
        ((SKIPPED,), "1 of 1 tests have not passed"),
        ((), "no test was run"),
    ],
)
def test_nothing_is_reported_as_proven_that_was_not(
    tmp_path: Path, cases: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "long.md"
    assert proven.main([str(report), str(results(tmp_path, *cases))]) == 1
    assert said in capsys.readouterr().err
    assert not report.exists()


def test_results_that_are_not_there_are_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert proven.main([str(tmp_path / "long.md"), str(tmp_path / "none.xml")]) == 1
    assert "none.xml" in capsys.readouterr().err
