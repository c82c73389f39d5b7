"""Recorders in simulated worlds: whatever happens, the lines tell one story."""

import json
from collections import Counter
from typing import Any

import pytest

from headgate.core.effects import Effect
from headgate.core.events import Event, LeadershipWon
from headgate.core.ids import CheckpointId, LeaderId
from headgate.core.job import step
from headgate.core.records import CompletedCheckpoint
from headgate.core.state import JobState, Phase
from headgate.sim import world
from headgate.sim.plan import draw
from headgate.view.recorder import PROGRESS, Recorder

SEEDS = range(60)


class Told:
    """The lines of every process of one world, and where its core stands."""

    def __init__(self) -> None:
        self.recorders: dict[LeaderId, Recorder] = {}
        self.lines: dict[LeaderId, list[dict[str, Any]]] = {}
        self.states: dict[LeaderId, JobState] = {}
        self.seen_completed: dict[LeaderId, dict[CheckpointId, None]] = {}

    def step(self, before: JobState, event: Event) -> tuple[JobState, tuple[Effect, ...]]:
        after, effects = step(before, event)
        leader = event.leader if isinstance(event, LeadershipWon) else before.leadership.leader
        recorder = self.recorders.setdefault(leader, Recorder("job"))
        told = recorder.watch(after.now_ms, event, before, after, effects)
        self.lines.setdefault(leader, []).extend(line for line in told if line["event"] != PROGRESS)
        self.states[leader] = after
        seen = self.seen_completed.setdefault(leader, {})
        seen.update({c.id: None for c in after.retained.completed if c.leader == leader and after.phase in SETTLED})
        return after, effects


SETTLED = (Phase.RECOVERING, Phase.RUNNING, Phase.RESTARTING, Phase.CLOSING, Phase.CLOSED)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_checkpoint_has_one_beginning_and_at_most_one_end(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(world, "step", told.step)
    one = world.World(draw(seed))
    assert one.run().violations == ()
    for leader, lines in told.lines.items():
        assert json.loads(json.dumps(lines)) == lines
        triggered = Counter(line["id"] for line in lines if line["event"] == "checkpoint-triggered")
        ends = Counter(line["id"] for line in lines if line["event"] in ("checkpoint-completed", "checkpoint-failed"))
        assert set(triggered.values()) <= {1}
        assert set(ends.values()) <= {1}
        assert set(ends) <= set(triggered)
        state = told.states[leader]
        under_way = {p.id for p in state.checkpoints.pending}
        under_way |= {
            r.id
            for r in (*state.checkpoint_log.queue, *state.leadership.in_doubt)
            if isinstance(r, CompletedCheckpoint)
        }
        assert set(triggered) - set(ends) == under_way
        completed = [line["id"] for line in lines if line["event"] == "checkpoint-completed"]
        assert set(told.seen_completed[leader]) == set(completed)
        for line in lines:
            if line["event"] == "checkpoint-completed":
                assert 0 <= line["publish_ms"] <= line["duration_ms"]
                for part in line["tasks"].values():
                    assert 0 <= part["alignment_ms"] <= part["start_delay_ms"] <= line["duration_ms"]
        if state.phase is Phase.CLOSED and "generation" in {line["event"] for line in lines}:
            committed = [line["id"] for line in lines if line["event"] == "checkpoint-committed"]
            assert set(completed) <= set(committed)
            assert lines[-1]["event"] == "ended"
