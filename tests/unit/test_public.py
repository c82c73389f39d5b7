"""The public names of the package. Changing this list needs a line in the changelog."""

from pathlib import Path

import pytest

import headgate


def test_the_public_names_are_these_and_no_others() -> None:
    assert headgate.__all__ == [
        "Abandoned",
        "Attempt",
        "CheckpointId",
        "Checkpointing",
        "Context",
        "DeadRuns",
        "ExternalError",
        "FencedOff",
        "Generation",
        "Guarantee",
        "HeadgateError",
        "IdempotentSink",
        "Job",
        "JobClient",
        "KeyedState",
        "ListState",
        "MapState",
        "Options",
        "Processor",
        "Result",
        "SinkContext",
        "Source",
        "StagedFile",
        "Strangers",
        "Stream",
        "TwoPhaseSink",
        "Unpublished",
        "UserError",
        "ValueState",
        "WriteAheadBatch",
        "WriteAheadSink",
        "__version__",
        "console",
        "delta",
        "files",
        "generator",
        "hbase",
        "iceberg",
        "jdbc",
        "kafka",
        "mariadb",
        "postgres",
        "restart",
        "search",
        "state_backend",
    ]


def test_every_public_name_is_there_and_is_described() -> None:
    for name in headgate.__all__:
        found = getattr(headgate, name)
        assert name == "__version__" or found.__doc__, name


def test_a_name_that_is_not_public_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        headgate.nothing  # noqa: B018


def test_the_package_ships_its_types() -> None:
    assert (Path(headgate.__file__).parent / "py.typed").is_file()
