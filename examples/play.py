"""The course of an example: a broker, a job, a kill in the middle, the job again, and a count.

One rule: the job is killed when some checkpoints are complete and much is still to be read, and never by the clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.job_process import JobProcess, rows_read
from examples.narrator import Narrator
from examples.topics import read_all
from headgate.audit import Verdict
from services.kafka import Kafka
from services.server import ROOT, ServiceError

RUN_S = 300.0
"""How long one run of a job may take."""
BATCHES = 12
"""The input is read in this many batches, so that there is a middle."""
SHARE_BEFORE_KILL = 0.25
"""How much of the input is read when the job is killed, at least."""


@dataclass(frozen=True)
class Finding:
    """What an audit found: a count of records, and whatever else is wrong."""

    verdict: Verdict
    wrong: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether everything is there once, and right."""
        return self.verdict.exact and not self.wrong


@dataclass(frozen=True)
class Stage:
    """Where an example plays."""

    kafka: Kafka
    directory: Path
    rows: int
    tell: Narrator

    def run(self, job: Path, settings: Mapping[str, str]) -> JobProcess:
        """Start a job on this stage."""
        self.tell.say("job", f"headgate run {job.relative_to(ROOT)}")
        places = {"KAFKA_SERVERS": self.kafka.servers, "HEADGATE_STORAGE": str(self.directory / "storage")}
        return JobProcess(job, self.directory, {**places, **settings})

    def tell_event(self, event: Mapping[str, Any]) -> None:
        """Say what is worth saying of what a job tells."""
        match event["event"]:
            case "generation":
                base = "the beginning" if event["base"] is None else f"checkpoint {event['base']}"
                self.tell.say("job", f"generation {event['generation']} begins from {base}")
            case "checkpoint-completed":
                self.tell.often("job", f"checkpoint {event['id']} is complete, after {event['duration_ms']:.0f} ms")
            case "task-failed":
                self.tell.say("job", f"task {event['task']} failed: {event['message']}")
            case "notice":
                self.tell.often("job", str(event["text"]))
            case "warning" | "ended":
                self.tell.say("job", str(event["text"]))
            case _:
                pass

    def tell_topic(self, topic: str) -> None:
        """Say what a careful and what a careless reader of a topic sees."""
        everything, committed = (
            len(read_all(self.kafka, topic, each)) for each in ("read_uncommitted", "read_committed")
        )
        self.tell.say(
            "reader", f"topic {topic} holds {everything} records; {committed} of them are committed and can be seen"
        )

    def kill(self, process: JobProcess, why: str) -> None:
        """SIGKILL a job, with all that belongs to it."""
        killed = process.kill()
        self.tell.say("SIGKILL", f"{why}: all {len(killed)} processes of the job are killed")


@dataclass
class Middle:
    """How far a job has come, by what it tells."""

    read: int = 0
    """How many rows."""
    checkpoints: int = 0
    """How many were completed after the first rows were read."""

    def take(self, event: Mapping[str, Any]) -> None:
        """Look at the next event."""
        if event["event"] == "progress":
            self.read = rows_read(event)
        elif event["event"] == "checkpoint-completed" and self.read:
            self.checkpoints += 1

    @property
    def reached(self) -> bool:
        """Whether there is something to come back to. The second checkpoint was begun after rows were read."""
        return self.checkpoints >= 2


@dataclass(frozen=True)
class Example:
    """What one example does on the stage."""

    title: str
    facts: tuple[str, ...]
    rows: int
    output: str
    """The topic in which the results are."""
    play: Callable[[Stage], None]
    audit: Callable[[Stage], Finding]


def kill_and_finish(stage: Stage, job: Path, output: str) -> None:
    """Run a job whose input has an end, kill it in the middle, and run it again to its end."""
    settings = {
        "CHECKPOINT_INTERVAL": "1s",
        "ROWS_PER_BATCH": str(max(1, stage.rows // BATCHES)),
        "BATCH_INTERVAL": "700ms",  # On a fast machine, too, it lasts long enough to be killed.
        "BOUNDED": "yes",
    }
    with stage.run(job, settings) as process:
        middle = Middle()
        for event in process.events(RUN_S):
            stage.tell_event(event)
            middle.take(event)
            if middle.reached and middle.read >= SHARE_BEFORE_KILL * stage.rows:
                so_far = f"{middle.read} of {stage.rows} rows are read"
                stage.kill(process, f"{so_far}, {middle.checkpoints} checkpoints hold some of them")
                break
        else:
            raise ServiceError(_too_early(process, stage))
    stage.tell_topic(output)
    finish(stage, job, settings)


def finish(stage: Stage, job: Path, settings: Mapping[str, str]) -> None:
    """Run a job to its end."""
    with stage.run(job, settings) as process:
        for event in process.events(RUN_S):
            stage.tell_event(event)
        if not process.over:
            raise ServiceError(f"the job did not end within {RUN_S:g} s; its log is {stage.directory / 'job.log'}")
        code = process.wait(RUN_S)
        if code != 0:
            raise ServiceError(f"the job ended with exit code {code}; its log is {stage.directory / 'job.log'}")


def _too_early(process: JobProcess, stage: Stage) -> str:
    log = stage.directory / "job.log"
    if not process.over:
        return f"the job did not get on within {RUN_S:g} s; its log is {log}"
    code = process.wait(RUN_S)
    return f"the job ended before it could be killed, with exit code {code}; its log is {log}"
