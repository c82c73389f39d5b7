"""Whether a transaction may be open for as long as the job's settings let it be."""

import logging
from pathlib import Path

import pytest

from headgate.connect.kafka.writing.preflight import check_timeout
from headgate.core.ids import SinkId
from headgate.errors import InvalidOption
from headgate.sink.api import SinkContext

MINUTE = 60_000


def context(interval_ms: int | None, timeout_ms: int = 10 * MINUTE) -> SinkContext:
    return SinkContext("job", SinkId("out"), "inc_0", Path("staged"), timeout_ms, checkpoint_interval_ms=interval_ms)


@pytest.mark.parametrize("interval_ms", [None, 10_000, MINUTE])
def test_the_defaults_fit_each_other(interval_ms: int | None, caplog: pytest.LogCaptureFixture) -> None:
    for write_ahead in (True, False):
        check_timeout(context(interval_ms), 15 * MINUTE, 4 * MINUTE, write_ahead=write_ahead)
    assert caplog.text == ""


def test_a_long_interval_is_refused_without_the_net_and_warned_of_with_it(caplog: pytest.LogCaptureFixture) -> None:
    said = (
        r"^sink out: transaction_timeout is 900 s, and a transaction may be open for 1440 s \(checkpoint interval "
        r"600 s, checkpoint timeout 600 s, allowed_downtime 240 s\): make it 1440 s or more"
    )
    with pytest.raises(InvalidOption, match=said):
        check_timeout(context(10 * MINUTE), 15 * MINUTE, 4 * MINUTE, write_ahead=False)
    with caplog.at_level(logging.WARNING, "headgate"):
        check_timeout(context(10 * MINUTE), 15 * MINUTE, 4 * MINUTE, write_ahead=True)
    assert "make it 1440 s or more" in caplog.text
    assert "written anew from the write-ahead log" in caplog.text


def test_what_is_pre_committed_must_outlive_a_downtime_in_any_case() -> None:
    with pytest.raises(InvalidOption, match="make it 840 s or more"):
        check_timeout(context(10_000), 13 * MINUTE, 4 * MINUTE, write_ahead=True)
    with pytest.raises(InvalidOption, match="make it 850 s or more"):
        check_timeout(context(10_000), 13 * MINUTE, 4 * MINUTE, write_ahead=False)
