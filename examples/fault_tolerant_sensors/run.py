"""Runs the job on a broker of its own while sensors speak, kills it meanwhile, runs it again, and counts every alert.

One rule: which readings jump is worked out a second time here, and shares no code with the job.

Every sensor falls silent in the end, two of them early, and each silence must be reported once. A silence goes by the
clock: where this machine stops for seconds, sensors that spoke again later are rightly reported too, once for each
silence.
"""

import math
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from examples.command import main
from examples.job_process import JobProcess
from examples.play import RUN_S, Example, Finding, Middle, Stage
from examples.topics import Record, Writer, read_all
from headgate import audit
from services.server import ServiceError

JOB = Path(__file__).with_name("job.py")
PARTITIONS = 3
SENSORS = 12
TICK_S = 0.06
"""Every sensor speaks this often,"""
SLOW_TICK_S = 0.5
"""or this often, where the job is slow and should not be killed before it has come to something."""
LOOK_S = 1.0
"""The alerts are looked at this often."""
JUMP = 5.0
SILENCE = "3s"


class Sensors:
    """What sensors say, tick by tick, whether anybody listens or not."""

    def __init__(self, rows: int) -> None:
        """Two of them fall silent early."""
        self.ticks = rows // SENSORS
        self.spoken = 0
        self._random = random.Random(rows)
        self._early = {1: self.ticks // 3, 2: self.ticks // 2}

    @property
    def done(self) -> bool:
        """Whether all have fallen silent."""
        return self.spoken >= self.ticks

    def tick(self) -> list[Record]:
        """What they say next. Now and then a value is off by ten or more."""
        seq, found = self.spoken, []
        self.spoken += 1
        for number in range(SENSORS):
            if seq < self._early.get(number, self.ticks):
                value = 20 + 2 * math.sin(seq / 20 + number) + (10 if self._random.random() < 0.02 else 0)
                reading = {"sensor": f"sensor-{number}", "seq": seq, "value": round(value, 2)}
                found.append(Record(number % PARTITIONS, f"sensor-{number}", reading))
        return found


class Course:
    """Readings are written while the job runs, dies and runs again."""

    def __init__(self, stage: Stage) -> None:
        """Nothing has happened yet."""
        self._stage = stage
        self._sensors = Sensors(stage.rows)
        self._writer = Writer(stage.kafka, "readings")
        self._listened = False
        self._next_s = 0.0
        self._middle = Middle()
        self._deadline_s = time.monotonic() + RUN_S

    def run(self) -> None:
        """Run, kill, run, and stop when every alert is there."""
        stage, sensors = self._stage, self._sensors
        settings = {"CHECKPOINT_INTERVAL": "1s", "SILENCE": SILENCE}
        with stage.run(JOB, settings) as process:
            while not (self._middle.reached and self._half_spoken):
                self._go_on(process)
            so_far = f"after {sensors.spoken} of {sensors.ticks} readings of each sensor"
            stage.kill(process, f"{so_far}, {self._middle.checkpoints} checkpoints hold some of them")
        stage.tell_topic("alerts")
        self._deadline_s = time.monotonic() + RUN_S
        with stage.run(JOB, settings) as process:
            while not sensors.done:
                self._go_on(process)
            self._writer.flush()
            stage.tell.say("input", "all sensors have fallen silent")
            looked_s = time.monotonic()
            while time.monotonic() - looked_s < LOOK_S or not _all_reported(stage):
                self._go_on(process)
            stage.tell.say("reader", "every alert is there")
            _stop(stage, process)

    @property
    def _half_spoken(self) -> bool:
        return self._sensors.spoken >= self._sensors.ticks // 2

    def _go_on(self, process: JobProcess) -> None:
        """Let sensors speak when it is their time, and hear what the job tells."""
        now_s = time.monotonic()
        if now_s > self._deadline_s or process.over:
            raise ServiceError(f"the job ended, or is too slow; its log is {self._stage.directory / 'job.log'}")
        if self._listened and not self._sensors.done and now_s >= self._next_s:
            self._next_s = now_s + (TICK_S if self._middle.reached or not self._half_spoken else SLOW_TICK_S)
            for record in self._sensors.tick():
                self._writer.write(record)
        for event in process.events(TICK_S / 4):
            self._stage.tell_event(event)
            self._listened = self._listened or event["event"] == "task-started"
            self._middle.take(event)


def play(stage: Stage) -> None:
    """Let sensors speak; run, kill, run."""
    stage.kafka.create_topic("readings", PARTITIONS)
    stage.kafka.create_topic("alerts", PARTITIONS)
    Course(stage).run()


def expected(stage: Stage) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """Which alerts must be there: jumps, and the last silence of each sensor. An alert is a name and a number."""
    jumps, last = set(), dict[str, dict[str, Any]]()
    for reading in sorted(read_all(stage.kafka, "readings"), key=lambda each: int(each["seq"])):
        before = last.get(reading["sensor"])
        if before is not None and abs(reading["value"] - before["value"]) > JUMP:
            jumps.add((f"{reading['sensor']} jump", int(reading["seq"])))
        last[reading["sensor"]] = reading
    return jumps, {(f"{sensor} silent", int(reading["seq"])) for sensor, reading in last.items()}


def reported(stage: Stage) -> list[tuple[str, int]]:
    """Which alerts are there, in the same form."""
    return [(f"{each['sensor']} {each['kind']}", int(each["seq"])) for each in read_all(stage.kafka, "alerts")]


def check(stage: Stage) -> Finding:
    """Count the alerts by sensor, kind and number."""
    jumps, silences = expected(stage)
    found = reported(stage)
    between = {(name, seq) for name, seq in found if name.endswith(" silent")} - silences
    stage.tell.say("audit", f"{len(jumps)} jumps, and the silence of {len(silences)} sensors, are to be reported")
    if between:
        stage.tell.say("audit", f"{len(between)} sensors were silent for {SILENCE} in between, by the clock of the job")
    wanted = sorted(jumps | silences | between)
    return Finding(audit.count(_columns(wanted), _columns(found)))


def _columns(alerts: list[tuple[str, int]]) -> tuple[list[str], list[int]]:
    return [name for name, _ in alerts], [seq for _, seq in alerts]


def _all_reported(stage: Stage) -> bool:
    jumps, silences = expected(stage)
    return jumps | silences <= set(reported(stage))


def _stop(stage: Stage, process: JobProcess) -> None:
    """End the job in good order, as a user would."""
    stage.tell.say("job", "headgate stop fault-tolerant-sensors")
    command = ["stop", "fault-tolerant-sensors", "--storage", str(stage.directory / "storage"), "--timeout", f"{RUN_S}"]
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "headgate", *command], capture_output=True, text=True, check=False
    )
    for event in process.events(RUN_S):
        stage.tell_event(event)
    if done.returncode != 0 or process.wait(RUN_S) != 0:
        raise ServiceError(f"the job could not be stopped: {done.stderr}; its log is {stage.directory / 'job.log'}")


if __name__ == "__main__":
    main(
        Example(
            title="Fault-tolerant sensors: readings from Kafka, alerts to Kafka",
            facts=(
                f"topic readings -> jumps of more than {JUMP}, silence of {SILENCE}, in keyed state -> topic alerts",
                "The job is killed with SIGKILL while sensors speak, and started again; then every alert is counted",
            ),
            rows=6_000,
            output="alerts",
            play=play,
            audit=check,
        )
    )
