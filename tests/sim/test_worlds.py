"""Whole worlds: many seeds, kept scenarios, one log for one seed."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import headgate.sim
from headgate.core.ids import TaskId
from headgate.sim import runner, scenario
from headgate.sim.checker import Checker, Shape
from headgate.sim.disk import Disk, key_of
from headgate.sim.plan import KINDS, WorldPlan, draw
from headgate.sim.sink import SimSink
from headgate.sim.table import SimTable
from headgate.sim.world import World

WORLDS = sorted(Path(__file__).parents[1].joinpath("scenario", "worlds").glob("*.world"))
SIM = Path(headgate.sim.__file__).parent


@pytest.mark.parametrize("path", WORLDS, ids=lambda path: path.stem)
def test_a_kept_world_breaks_no_promise(path: Path) -> None:
    assert runner.run_one(scenario.load(path)).violations == ()


@pytest.mark.heavy
def test_two_hundred_seeds_break_no_promise_and_are_worth_running() -> None:
    summary = runner.run_seeds(range(5_000, 5_200), jobs=1)
    assert [verdict.violations for verdict in summary.failing] == []
    assert summary.seeds == 200
    assert summary.crashes > 100
    assert summary.completed_checkpoints > 1_000


def test_the_result_does_not_depend_on_how_many_processes_ran_it() -> None:
    one, two = (runner.run_seeds(range(runner.CHUNK + 4), jobs) for jobs in (1, 2))
    assert (one.events, one.crashes, one.completed_checkpoints) == (two.events, two.crashes, two.completed_checkpoints)


def test_seeds_draw_every_kind_of_fault_mode_and_shape() -> None:
    plans = [draw(seed) for seed in range(600)]
    assert {fault.kind for plan in plans for fault in plan.faults} == {*dict(KINDS), "ask-drain"}
    assert {plan.settings.mode.value for plan in plans} == {"exactly-once", "at-least-once", "at-most-once"}
    assert {len(plan.graph.tasks) for plan in plans} == {1, 2, 3, 4, 5, 6}
    assert {len(plan.graph.owner) for plan in plans} == {1, 2, 3}
    assert any(len(plan.graph.inputs[task.id]) > 1 for plan in plans for task in plan.graph.tasks)
    assert any(len(plan.graph.outputs[task.id]) > 1 for plan in plans for task in plan.graph.tasks)


def test_one_seed_gives_one_log_whatever_the_hash_seed() -> None:
    logs = [
        subprocess.run(
            [sys.executable, "-m", "headgate", "sim", "--replay", "3"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4242")
    ]
    assert logs[0] == logs[1]
    assert len(logs[0].splitlines()) > 300


def test_the_checker_uses_none_of_the_core() -> None:
    for name in ("checker.py", "disk.py", "sink.py"):
        tree = ast.parse((SIM / name).read_text(encoding="utf-8"))
        imported = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        imported += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
        assert not [module for module in imported if module.startswith("headgate.core")], name


def test_a_world_that_stands_still_is_found_out() -> None:
    plan = draw(1)
    world = World(replace(plan, faults=()))
    world.message = lambda *_: None  # type: ignore[method-assign]
    assert "no progress" in world.run().violations[0]


class Scene:
    """A world of the checker alone: one source ``t0`` that writes ``k0``."""

    def __init__(self, mode: str = "exactly-once", held_up: tuple[tuple[int, int], ...] = ()) -> None:
        self.now = 0
        self.disk = Disk()
        self.sinks = {"k0": SimSink("k0", lambda: self.now)}
        self.tables = {"k0": SimTable(versioned=True)}
        self.found: list[str] = []
        shape = Shape(
            mode=mode,
            num_retained=1,
            max_batches_ahead=None,
            aligned=True,
            leftovers_ms=100,
            held_up=held_up,
            channels=(),
            sinks=(("k0", "t0"),),
            records={"t0": 2},
        )
        self.checker = Checker(self, shape)

    def violation(self, what: str) -> None:
        self.found.append(what)

    def show(self, *numbers: int) -> None:
        rows = [(0, number, 0, 99) for number in numbers]
        self.sinks["k0"].visible += rows
        self.tables["k0"].rows.update({key_of(row): (1, row) for row in rows})


def test_the_checker_finds_what_the_dead_left_for_too_long() -> None:
    scene = Scene()
    scene.sinks["k0"].write(1, 0, 1, [(0, 0, 0, 9)])
    for generation in (1, 2):
        scene.checker.created(SimpleNamespace(id=generation, generation=generation, base=None, ending=None))
    scene.now = 100
    scene.checker.leftovers(scene.sinks["k0"], 2)
    assert scene.found == []
    scene.now = 101
    scene.checker.leftovers(scene.sinks["k0"], 2)
    assert scene.found == ["k0 has held what generation 1 left for 101 ms"]
    scene.sinks["k0"].abort_stale_generations(2)
    scene.checker.leftovers(scene.sinks["k0"], 2)
    assert len(scene.found) == 1


@pytest.mark.parametrize(("until", "found"), [(0, True), (1, False)])
def test_the_checker_gives_the_time_that_a_fault_holds_up_and_only_while_it_does(until: int, found: bool) -> None:
    scene = Scene(held_up=((until, 50),))
    scene.sinks["k0"].write(1, 0, 1, [(0, 0, 0, 9)])
    for generation in (1, 2):
        scene.checker.created(SimpleNamespace(id=generation, generation=generation, base=None, ending=None))
    scene.now = 150
    scene.checker.leftovers(scene.sinks["k0"], 2)
    assert bool(scene.found) is found


@pytest.mark.parametrize(
    ("mode", "seen", "found"),
    [
        ("exactly-once", (0, 1), []),
        ("exactly-once", (0,), ["k0 has record 1 of t0 0 times"]),
        ("exactly-once", (0, 1, 1), ["k0 has record 1 of t0 2 times"]),
        ("exactly-once", (0, 1, 2), ["k0 has rows that no source gave: [(0, 2, 0)]"]),
        ("at-least-once", (0, 1, 1), []),
        ("at-least-once", (1,), ["k0 has record 0 of t0 0 times"]),
        ("at-most-once", (0, 1, 1), ["k0 has record 1 of t0 2 times"]),
        ("at-most-once", (0,), ["k0 has record 1 of t0 0 times"]),
    ],
)
def test_the_checker_counts_loss_and_duplication_by_mode(mode: str, seen: tuple[int, ...], found: list[str]) -> None:
    scene = Scene(mode)
    scene.show(*seen)
    scene.checker.finished()
    assert scene.found == found


@pytest.mark.parametrize(
    ("mode", "found"), [("exactly-once", (0, 1, 0, 7)), ("exactly-once", (0, 5, 0, 99)), ("at-least-once", None)]
)
def test_the_checker_finds_rows_under_keys_that_are_not_the_last_that_were_committed(
    mode: str, found: tuple[int, int, int, int] | None
) -> None:
    scene = Scene(mode)
    scene.show(0, 1)
    del scene.tables["k0"].rows[0, 0, 1]
    if found is not None:
        scene.tables["k0"].rows[0, 0, 1] = (1, found)
    scene.checker.finished()
    missing = "k0 has nothing under (0, 0, 1)"
    stale = f"k0 has {found} under (0, 0, 1); committed last was (0, 1, 0, 99)"
    assert scene.found == [missing if found is None else stale]


def test_at_most_once_may_lose_only_what_was_skipped() -> None:
    scene = Scene("at-most-once")
    scene.show(0)
    scene.checker.lost[0, 1] = None
    scene.checker.finished()
    assert scene.found == []


def test_a_scenario_says_the_whole_plan() -> None:
    for seed in range(40):
        plan = draw(seed)
        assert scenario.read(scenario.write(plan, "a comment\nof two lines")) == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line 'seed N'"),
        ("seed x", "line 1"),
        ("seed 1\nnonsense 3", "line 2"),
        ("seed 1\nsetting mode sometimes", "line 2"),
        ("seed 1\nsetting restart Never", "line 2"),
        ("seed 1\nfault 3 crash-task", "line 2"),
        ("seed 1", "the job has no task"),
        ("seed 1\nsetting speed 3\ntask t0 o0 - 1 4", "cannot be"),
    ],
)
def test_a_scenario_that_cannot_be_read_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(scenario.BadScenario, match=message):
        scenario.read(text)


def test_shrinking_leaves_only_faults_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = next(plan for plan in map(draw, range(100)) if len(plan.faults) >= 6)
    guilty = {plan.faults[1], plan.faults[4]}

    def run(candidate: WorldPlan, log: list[str] | None = None) -> object:
        del log
        broken = guilty <= set(candidate.faults)
        return type("Verdict", (), {"violations": ("broken",) if broken else ()})()

    monkeypatch.setattr(runner, "run_one", run)
    assert runner.shrink(plan).faults == (plan.faults[1], plan.faults[4])


def test_a_plan_with_other_faults_is_the_same_world_otherwise() -> None:
    plan = draw(7)
    assert replace(plan.with_faults(()), faults=plan.faults) == plan
    assert all(TaskId(task) in plan.graph.by_id for task in plan.records)
