"""Planted bugs: small patches of the core, each breaking one rule of the protocol.

The simulator must find every one of them. ``old`` must stand exactly once in the file, so a patch cannot go stale
unseen.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A bug to plant: in ``file`` of the core, ``old`` becomes ``new``.

    What an edge must do and the core cannot is planted in the simulator's own model of the edge.
    """

    name: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "whoever wakes up takes the leader row of a sink that writes at once",
        "fencing.py",
        "    return leader <= order\n",
        "    return order[0] > 0\n",
    ),
    Mutant(
        "rows are written at once although another attempt has taken the leader row",
        "fencing.py",
        "    return leader == order\n",
        "    return order[0] > 0\n",
    ),
    Mutant(
        "the leader row knows generations only: an executor that was given up writes over later batches",
        "fencing.py",
        "    return leader == order\n",
        "    return leader[0] == order[0]\n",
    ),
    Mutant(
        "versions of rows do not rise with the generation",
        "fencing.py",
        "    epoch = max(0, begun_ms // 1_000 - EPOCH_S) + generation\n",
        "    epoch = max(0, begun_ms // 1_000 - EPOCH_S) + min(generation, 1)\n",
    ),
    Mutant(
        "versions of rows do not tell batches apart",
        "fencing.py",
        "min(batch + run, ",
        "min(run, ",
    ),
    Mutant(
        "a fact of a dead run is accepted",
        "tasks.py",
        "if fact.run != task.run or task.ended or task.restart_at_ms is not None:",
        "if task.ended:",
    ),
    Mutant(
        "an acknowledgement of an earlier checkpoint counts for the one under way",
        "coordinator.py",
        "    pending = find(state, fact.checkpoint)\n    if pending is None:\n        settled",
        "    pending = state.checkpoints.pending[0] if state.checkpoints.pending else None\n"
        "    if pending and fact.task in pending.cuts:\n"
        "        fact = evolve(fact, batch=pending.cuts[fact.task].boundary.batch)\n"
        "    if pending is None:\n        settled",
    ),
    Mutant(
        "a fact of a dead generation is accepted",
        "tasks.py",
        "if state.phase is not Phase.RUNNING or fact.generation != state.leadership.generation:",
        "if state.phase is not Phase.RUNNING:",
    ),
    Mutant(
        "commit before publication: sinks may commit as soon as the record is ordered",
        "coordinator.py",
        "    if first is not None:\n        context.order(CreateRecord(state.leadership.leader, first))",
        "    if first is not None:\n        context.order(CreateRecord(state.leadership.leader, first))\n"
        "    if last is not None:\n"
        "        for name, sink in context.state.sinks.items():\n"
        "            after, _ = commit.allow(sink, checkpoint_log.permit(last))\n"
        "            context.set_sink(name, after)\n"
        "            if after.due:\n"
        "                from headgate.core.effects import CommitTransaction\n"
        "                context.order(CommitTransaction(state.leadership.generation, *after.due[0]))",
    ),
    Mutant(
        "the gate is opened one barrier early",
        "alignment.py",
        "        if barrier is not None and channel.downstream not in pending.cuts:\n"
        "            return min(committed, barrier.boundary.batch)",
        "        if barrier is not None and channel.downstream not in pending.cuts:\n            return committed",
    ),
    Mutant(
        "a task is cut before every input has reached the barrier",
        "alignment.py",
        "if barrier is None or consumed < barrier.boundary.batch:",
        "if barrier is None:",
    ),
    Mutant(
        "the in-flight range is off by one at its beginning",
        "alignment.py",
        "after=min(consumed, pending.cuts[channel.upstream].boundary.batch),",
        "after=min(consumed + 1, pending.cuts[channel.upstream].boundary.batch),",
    ),
    Mutant(
        "the in-flight data is forgotten on restore",
        "recovery.py",
        "in_flight=tuple(held[channel] for channel in graph.inputs[task.id] if channel in held),",
        "in_flight=(),",
    ),
    Mutant(
        "the epoch record is ignored: a foreign record counts as ours",
        "checkpoint_log.py",
        "    if not is_same(log.queue[0], record):\n        return log, Answer.FOREIGN, None\n"
        "    log, ours = created(log, record.generation, record.id)",
        "    log, ours = created(log, log.queue[0].generation, record.id)",
    ),
    Mutant(
        "an epoch record counts wherever it landed",
        "leadership.py",
        "is not None and tail is not None and checkpoint_log.is_same(tail, written)\n",
        "is not None and any(checkpoint_log.is_same(each, written) for each in fact.records)\n",
    ),
    Mutant(
        "no epoch record is written where the predecessor would write next",
        "checkpoint_log.py",
        "place = CheckpointId(tail.next_id if isinstance(tail, EpochRecord) else tail.id + 1)",
        "place = CheckpointId(tail.id + 1)",
    ),
    Mutant(
        "a failed store write is trusted: the checkpoint is taken as published",
        "publication.py",
        "    links = checkpoint_log.unclear(\n",
        "    links, record = checkpoint_log.created(state.checkpoint_log, fact.generation, fact.record)\n"
        "    context.state = evolve(state, checkpoint_log=links)\n"
        "    _recorded(context, record)\n"
        "    return\n"
        "    links = checkpoint_log.unclear(\n",
    ),
    Mutant(
        "a failed store write is believed not to have landed: the checkpoint is forgotten",
        "checkpoint_log.py",
        "    return evolve(log, retry_at_ms=now_ms + delay_ms, tries=log.tries + 1, failing_since_ms=since_ms)\n",
        "    return evolve(log, queue=log.queue[1:], recorded=record)\n",
    ),
    Mutant(
        "a checkpoint is published before every sink has pre-committed",
        "coordinator.py",
        "    return len(pending.acknowledged) == len(state.execution.tasks) and all(\n"
        "        sink.pre_committed_for >= pending.id for sink in state.sinks.values()\n"
        "    )",
        "    return len(pending.acknowledged) == len(state.execution.tasks)",
    ),
    Mutant(
        "a snapshot is published as of where the task stands, not where it was cut",
        "completed.py",
        "            batch=pending.cuts[task.id].boundary.batch,\n",
        "            batch=state.execution.tasks[task.id].boundary.batch,\n",
    ),
    Mutant(
        "what was pre-committed for a checkpoint that was given up is dropped",
        "commit.py",
        "    later = tuple(pre_commit for pre_commit in sink.wanted[1:] if pre_commit.checkpoint != checkpoint)\n",
        "    sink = evolve(sink, pre_committed=tuple(t for t in sink.pre_committed if t.checkpoint != checkpoint))\n"
        "    later = tuple(pre_commit for pre_commit in sink.wanted[1:] if pre_commit.checkpoint != checkpoint)\n",
    ),
    Mutant(
        "a failed pre-commit counts as done",
        "commit.py",
        "    sink = _settle(evolve(sink, wanted=sink.wanted[1:]))\n"
        "    return sink, sink.wanted[0] if sink.wanted else None\n"
        "\n\ndef forget_pre_commits",
        "    done = sink.wanted[0]\n"
        "    sink = evolve(sink, pre_committed_through=done.through, pre_committed_for=done.checkpoint)\n"
        "    sink = _settle(evolve(sink, wanted=sink.wanted[1:]))\n"
        "    return sink, sink.wanted[0] if sink.wanted else None\n"
        "\n\ndef forget_pre_commits",
    ),
    Mutant(
        "a failed commit is given up instead of tried again",
        "sinks.py",
        "        sink = commit.commit_failed("
        "sink, state.now_ms, settings.commit_retry_ms, settings.commit_retry_max_ms)\n",
        "        sink, _ = commit.committed(sink, fact.pre_committed_in, fact.checkpoint)\n        del settings\n",
    ),
    Mutant(
        "decided commits are forgotten on recovery",
        "recovery.py",
        "        commits=_commits(graph, records, restore),",
        "        commits=(),",
    ),
    Mutant(
        "what stale generations left is thrown away before decided commits are finished",
        "leadership.py",
        "    for sink in sinks:\n        committing.order_commit(context, sink)",
        "    committing.abort_stale_generations(context, epoch_record.generation)\n"
        "    for sink in sinks:\n        committing.order_commit(context, sink)",
    ),
    Mutant(
        "what our own generation wrote is thrown away as stale at the start",
        "leadership.py",
        "    committing.abort_stale_generations(context, state.leadership.generation)\n",
        "    committing.abort_stale_generations(context, state.leadership.generation + 1)  # type: ignore[arg-type]\n",
    ),
    Mutant(
        "the job returns to the checkpoint before the latest",
        "recovery.py",
        "        if isinstance(record, CompletedCheckpoint):\n            return record.id\n",
        "        if isinstance(record, CompletedCheckpoint) and record is not records[-1]:\n"
        "            return record.id\n",
    ),
    Mutant(
        "an id is used again by the next leader",
        "checkpoint_log.py",
        "    ahead = 1 if tail.leader == leader else IDS_AHEAD_MAX\n",
        "    ahead = 1\n",
    ),
    Mutant(
        "a later checkpoint cuts a task before the earlier one does",
        "alignment.py",
        "            else:\n                waiting[task.id] = None\n",
        "",
    ),
    Mutant(
        "held checkpoints are deleted",
        "retention.py",
        "        or checkpoint.id in held\n",
        "",
    ),
    Mutant(
        "one checkpoint too few is kept",
        "retention.py",
        "    newest = periodic[-num_retained:] if num_retained else []\n",
        "    newest = periodic[1 - num_retained :] if num_retained > 1 else periodic[-num_retained:]\n",
    ),
    Mutant(
        "files in flight are deleted",
        "retention.py",
        "held.channel == file.owner and held.after < file.batch <= held.through",
        "held.channel == file.owner and held.after < file.batch < held.through",
    ),
    Mutant(
        "files that live tasks need are deleted",
        "retention.py",
        "        if live and file.generation == generation:\n",
        "        if live and file.generation == generation and file.batch < 0:\n",
    ),
    Mutant(
        "a cancelled job deletes its checkpoints without making sure that it still leads",
        "closing.py",
        "    if termination.closing_written or _under_way(state):\n        return\n",
        "    if termination.closing_written or _under_way(state):\n        return\n"
        "    if termination.ending is Ending.CANCELLED:\n"
        "        context.state = evolve(state, termination=evolve(termination, closing_written=True))\n"
        "        return\n",
    ),
    Mutant(
        "a finished task's end is not seen by who reads from it",
        "tasks.py",
        "    for channel in context.state.graph.outputs[name]:\n        drain(context, channel.downstream)",
        "    for channel in context.state.graph.outputs[name][:0]:\n        drain(context, channel.downstream)",
    ),
    Mutant(
        "at-most-once replays the batch",
        "starting.py",
        "StartTask(state.leadership.generation, name, task.run, in_place=True, skip=skip)",
        "StartTask(state.leadership.generation, name, task.run, in_place=True, skip=not skip)",
    ),
    Mutant(
        "a lost message is never healed",
        "timing.py",
        "        context.effects.extend(unanswered(context.state))\n",
        "",
    ),
    Mutant(
        "commits go out of order",
        "commit.py",
        "    due = sink.due + tuple((permit, t) for t in ready)\n",
        "    due = tuple((permit, t) for t in ready) + sink.due\n",
    ),
    Mutant(
        "a job that is over is started again by whoever takes over",
        "leadership.py",
        "    if isinstance(tail, EpochRecord) and tail.ending is not None and not state.leadership.restore.again:\n",
        "    if isinstance(tail, EpochRecord) and tail.ending is not None and tail.id < 0:\n",
    ),
    Mutant(
        "what the user said of renamed operators is forgotten before a checkpoint knows it",
        "leadership.py",
        "        restore=evolve(state.leadership.restore, checkpoint=None, again=False, abandon=()),\n",
        "        restore=evolve(state.leadership.restore, checkpoint=None, again=False, abandon=(), renamed=()),\n",
    ),
    Mutant(
        "a snapshot of a task that had finished before is claimed for this generation",
        "completed.py",
        "            generation=pending.acknowledged[task.id].generation,\n",
        "            generation=state.leadership.generation,\n",
    ),
    Mutant(
        "a task may run one batch further ahead of its readers than the user allows",
        "backpressure.py",
        "boundary.positions[place] > limit:\n",
        "boundary.positions[place] > limit + 1:\n",
    ),
    Mutant(
        "who waits for a reader is not told when it has read on",
        "backpressure.py",
        "            admit(context, channel.upstream)\n",
        "            admit(context, name)\n",
    ),
    Mutant(
        "a job that came to its end commits again when it is started",
        "recovery.py",
        "            if record.ending is not None:\n                return ()\n",
        "",
    ),
    Mutant(
        "an epoch record without an ending counts as paid up",
        "recovery.py",
        "            if record.ending is not None:\n                return ()\n",
        "            return ()\n",
    ),
    Mutant(
        "the end is written down before all decided commits are done",
        "closing.py",
        "    return bool(asked) or any(sink.due for sink in state.sinks.values())\n",
        "    return bool(asked)\n",
    ),
    Mutant(
        "commits that a user gave up are not written down",
        "closing.py",
        "next_id, base, ending, abandoned)",
        "next_id, base, ending)",
    ),
    Mutant(
        "a checkpoint of a generation that has not shown that it can run replaces the one before",
        "retention.py",
        "        or checkpoint.id in beside\n",
        "",
    ),
    Mutant(
        "a generation that never ran passes on its own beginning as the one to keep",
        "completed.py",
        "    return before.id if before.keeps is None else before.keeps\n",
        "    return before.id\n",
    ),
    Mutant(
        "nothing is collected while a checkpoint is always pending",
        "garbage.py",
        "        candidates, below = (still, state.collection.candidates_below) if still else (candidates, below)\n",
        "        del still\n",
    ),
    Mutant(
        "an edge: what was pre-committed waits in the working directory alone",
        "../sim/sink.py",
        "        self.stored[key] = rows\n",
        "",
    ),
    Mutant(
        "an edge: what is in flight is not in the storage when its checkpoint counts",
        "../sim/perform.py",
        "    return [*flying, *(name",
        "    return [*(name",
    ),
    Mutant(
        "an epoch record with an ending is not read any more",
        "checkpoint_log.py",
        "    telling = [record.id for record in before if record.ending is not None or record.abandoned]\n",
        "    telling: list[CheckpointId] = []\n",
    ),
    Mutant(
        "whoever hears that it no longer leads throws away what it may have published",
        "leadership.py",
        '        depose(context, "leadership was lost")\n',
        '        depose(context, "leadership was lost")\n        committing.abort_unpublished(context)\n',
    ),
    Mutant(
        "a sink without room is no reason for a checkpoint",
        "trigger.py",
        "        return Trigger(Kind.CHECKPOINT, early=True) if not under_way and has_room(state) else None\n",
        "        pass\n",
    ),
    Mutant(
        "what comes after the first look for leftovers stays",
        "sinks.py",
        "leftovers = evolve(leftovers, look_again_ms=wait_ms, look_again_at_ms=state.now_ms + wait_ms)",
        "leftovers = evolve(leftovers, look_again_ms=wait_ms)",
    ),
    Mutant(
        "a read that is older makes a copied savepoint be copied again",
        "leadership.py",
        "    copied.update(c.id for c in state.retained.completed if c.id not in state.retained.copying)\n",
        "",
    ),
    Mutant(
        "a checkpoint does not say that the job is being drained",
        "completed.py",
        "        draining=pending.draining,\n",
        "",
    ),
    Mutant(
        "whoever returns to a checkpoint of a job that drains reads on",
        "leadership.py",
        "draining=state.termination.draining or _is_draining(plan.base)",
        "draining=state.termination.draining",
    ),
    Mutant(
        "a run of a task that was being drained comes up and reads",
        "starting.py",
        "        order = evolve(order, exhausted=True)\n",
        "        pass\n",
    ),
    Mutant(
        "the savepoint of a drain is taken when the first task has finished",
        "trigger.py",
        "    if state.termination.draining and all(task.ended for task in state.execution.tasks.values()):\n",
        "    if state.termination.draining and any(task.ended for task in state.execution.tasks.values()):\n",
    ),
    Mutant(
        "a batch that is left out at the end of time counts as progress",
        "tasks.py",
        "        fruitless=task.fruitless if starting.exhausted(state, name, task) else 0,\n",
        "        fruitless=0,\n",
    ),
)
