"""Every edge of the table of a run's states, and every edge that it does not have."""

import ast
import inspect
from collections.abc import Iterable
from itertools import product

import pytest

from headgate.errors import InternalError
from headgate.task import lifecycle
from headgate.task.lifecycle import TABLE, Lifecycle, Reaction, RunEvent, RunState

ALL = {(state, event) for state in RunState for event in RunEvent}
EDGES = """
created      START          starting     go
stopping     START          stopping     refuse
ended        START          ended        refuse
failed       START          failed       refuse

starting     SKIP           skipping     go
stopping     SKIP           stopping     refuse
ended        SKIP           ended        refuse
failed       SKIP           failed       refuse

skipping     SKIPPED        starting     go
stopping     SKIPPED        stopping     refuse
ended        SKIPPED        ended        refuse
failed       SKIPPED        failed       refuse

starting     LAUNCH         starting     go
skipping     LAUNCH         skipping     go
relaunching  LAUNCH         running      go
draining     LAUNCH         finishing    go
finishing    LAUNCH         finishing    go
stopping     LAUNCH         stopping     refuse
ended        LAUNCH         ended        refuse
failed       LAUNCH         failed       refuse

starting     UP             running      go
stopping     UP             stopping     ignore
ended        UP             ended        ignore
failed       UP             failed       ignore

running      RELAUNCH       relaunching  go
stopping     RELAUNCH       stopping     ignore
ended        RELAUNCH       ended        ignore
failed       RELAUNCH       failed       ignore

running      DRAIN          draining     go
draining     DRAIN          draining     ignore
finishing    DRAIN          finishing    ignore
finished     DRAIN          finished     ignore
stopping     DRAIN          stopping     ignore
ended        DRAIN          ended        ignore
failed       DRAIN          failed       ignore

running      RUN_OUT        finishing    go
stopping     RUN_OUT        stopping     ignore
ended        RUN_OUT        ended        ignore
failed       RUN_OUT        failed       ignore

skipping     LAST_PASSED    skipping     refuse
finishing    LAST_PASSED    finished     refuse
stopping     LAST_PASSED    stopping     refuse
ended        LAST_PASSED    ended        refuse
failed       LAST_PASSED    failed       refuse

created      INTERRUPT      stopping     go
starting     INTERRUPT      stopping     go
skipping     INTERRUPT      stopping     go
running      INTERRUPT      stopping     go
relaunching  INTERRUPT      stopping     go
draining     INTERRUPT      stopping     go
finishing    INTERRUPT      stopping     go
finished     INTERRUPT      stopping     go
stopping     INTERRUPT      stopping     ignore
ended        INTERRUPT      ended        ignore
failed       INTERRUPT      failed       ignore

starting     QUERY_STOPPED  stopping     stop
running      QUERY_STOPPED  stopping     stop
skipping     QUERY_STOPPED  skipping     ignore
finishing    QUERY_STOPPED  finishing    ignore
finished     QUERY_STOPPED  finished     ignore
stopping     QUERY_STOPPED  stopping     ignore
ended        QUERY_STOPPED  ended        ignore
failed       QUERY_STOPPED  failed       ignore

starting     QUERY_FAILED   failed       go
running      QUERY_FAILED   failed       go
finishing    QUERY_FAILED   failed       go
skipping     QUERY_FAILED   skipping     ignore
finished     QUERY_FAILED   finished     ignore
stopping     QUERY_FAILED   stopping     ignore
ended        QUERY_FAILED   ended        ignore
failed       QUERY_FAILED   failed       ignore

finishing    INCOMPLETE     failed       go
finished     INCOMPLETE     failed       go
stopping     INCOMPLETE     stopping     ignore
ended        INCOMPLETE     ended        ignore
failed       INCOMPLETE     failed       ignore

draining     END            ended        go
finishing    END            ended        go
finished     END            ended        go
stopping     END            ended        go
ended        END            ended        ignore
failed       END            failed       ignore

created      FAIL           failed       go
starting     FAIL           failed       go
skipping     FAIL           failed       go
running      FAIL           failed       go
relaunching  FAIL           failed       go
draining     FAIL           failed       go
finishing    FAIL           failed       go
finished     FAIL           failed       go
stopping     FAIL           failed       go
ended        FAIL           ended        ignore
failed       FAIL           failed       ignore
"""
"""What is expected, written out once more by hand: state, event, next state, answer."""

EXPECTED = {
    (RunState(state), RunEvent[event]): (RunState(to), Reaction(answer))
    for state, event, to, answer in (line.split() for line in EDGES.splitlines() if line)
}
MISSING = sorted(ALL - set(EXPECTED), key=lambda edge: (edge[0].value, edge[1].name))

WAYS: dict[RunState, list[RunEvent]] = {
    RunState.CREATED: [],
    RunState.STARTING: [RunEvent.START],
    RunState.SKIPPING: [RunEvent.START, RunEvent.SKIP],
    RunState.RUNNING: [RunEvent.START, RunEvent.LAUNCH, RunEvent.UP],
    RunState.RELAUNCHING: [RunEvent.START, RunEvent.LAUNCH, RunEvent.UP, RunEvent.RELAUNCH],
    RunState.DRAINING: [RunEvent.START, RunEvent.LAUNCH, RunEvent.UP, RunEvent.DRAIN],
    RunState.FINISHING: [RunEvent.START, RunEvent.LAUNCH, RunEvent.UP, RunEvent.DRAIN, RunEvent.LAUNCH],
    RunState.FINISHED: [
        *(RunEvent.START, RunEvent.LAUNCH, RunEvent.UP, RunEvent.DRAIN, RunEvent.LAUNCH),
        RunEvent.LAST_PASSED,
    ],
    RunState.STOPPING: [RunEvent.START, RunEvent.INTERRUPT],
    RunState.ENDED: [RunEvent.START, RunEvent.INTERRUPT, RunEvent.END],
    RunState.FAILED: [RunEvent.START, RunEvent.FAIL],
}
"""How a run gets into each state."""


def names(edge: object) -> str:
    return edge.name if isinstance(edge, (RunState, RunEvent)) else str(edge)


def run_in(state: RunState) -> Lifecycle:
    made = Lifecycle()
    for event in WAYS[state]:
        made.take(event)
    assert made.state is state
    return made


@pytest.mark.parametrize(("state", "event"), EXPECTED, ids=names)
def test_an_event_leads_where_the_table_says(state: RunState, event: RunEvent) -> None:
    run = run_in(state)
    to, answer = EXPECTED[state, event]
    assert run.take(event) is answer
    assert run.state is to


@pytest.mark.parametrize(("state", "event"), MISSING, ids=names)
def test_an_event_that_cannot_come_is_an_internal_error_and_says_where_it_came(
    state: RunState, event: RunEvent
) -> None:
    run = run_in(state)
    with pytest.raises(InternalError) as raised:
        run.take(event)
    assert run.state is state
    assert f"({event.name}) came to a run that was {state.value}" in str(raised.value)
    story = ", ".join(each.name for each in WAYS[state]) or "nothing"
    assert f"before it came {story}." in str(raised.value)


def test_the_table_has_these_edges_and_no_others() -> None:
    assert set(TABLE) == set(EXPECTED)
    assert len(EXPECTED) + len(MISSING) == len(RunState) * len(RunEvent)


def test_the_table_knows_no_thread_clock_file_or_spark() -> None:
    tree = ast.parse(inspect.getsource(lifecycle))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert modules == {"collections", "collections.abc", "dataclasses", "enum", "headgate.errors"}


# -- what holds of all edges -------------------------------------------------------------------------------------------


def edges(*states: RunState) -> Iterable[tuple[RunEvent, RunState, Reaction]]:
    for (state, event), edge in TABLE.items():
        if state in states:
            yield event, edge.to, edge.answer


def test_a_run_that_is_over_stays_as_it_is_and_tells_nothing_more() -> None:
    for state in (RunState.ENDED, RunState.FAILED):
        for event, to, answer in edges(state):
            assert to is state, event
            assert answer in (Reaction.IGNORE, Reaction.REFUSE), event


def test_a_run_that_nobody_wants_begins_nothing() -> None:
    for event, to, answer in edges(RunState.STOPPING):
        assert to in (RunState.STOPPING, RunState.ENDED, RunState.FAILED), event
        assert (answer is Reaction.GO) == (to is not RunState.STOPPING), event


@pytest.mark.parametrize("event", [RunEvent.INTERRUPT, RunEvent.FAIL], ids=names)
def test_a_run_can_be_interrupted_and_can_fail_in_every_state(event: RunEvent) -> None:
    assert all((state, event) in TABLE for state in RunState)


@pytest.mark.parametrize("state", RunState, ids=names)
def test_what_is_up_halting_and_over_follows_from_the_state(state: RunState) -> None:
    run = run_in(state)
    S = RunState  # noqa: N806 - a table
    assert run.is_up == (state not in (S.CREATED, S.STARTING, S.SKIPPING))
    assert run.is_over == (state in (S.ENDED, S.FAILED))
    assert run.is_halting == (state in (S.RELAUNCHING, S.DRAINING, S.STOPPING, S.ENDED, S.FAILED))


def test_what_comes_again_is_no_part_of_the_story() -> None:
    run = run_in(RunState.ENDED)
    for event, _ in product((RunEvent.DRAIN, RunEvent.FAIL), range(50)):
        run.take(event)
    assert list(run._story) == ["START", "INTERRUPT", "END"]
