"""An example from the command line.

One rule: the exit code is what the audit found, and however it ends, no process is left.
"""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from confluent_kafka import KafkaException

import headgate as hg
from examples.narrator import Narrator
from examples.play import Example, Finding, Stage
from examples.topics import steal
from services.kafka import Kafka
from services.server import ServiceError

FOUND_WRONG, REFUSED, INTERRUPTED = 1, 2, 130


def main(example: Example) -> None:
    """Run an example, with the options that the user gave."""

    def command(
        *,
        rows: Annotated[int, typer.Option(min=500, help="How many records go in.")] = example.rows,
        keep: Annotated[
            str, typer.Option(metavar="DIR", help="Work in this new directory, and keep it. Else it is thrown away.")
        ] = "",
        theft: Annotated[
            bool, typer.Option("--steal", help="Delete one result before it is counted, to see that the audit notices.")
        ] = False,
    ) -> None:
        raise typer.Exit(_perform(example, rows, keep, theft=theft))

    command.__doc__ = "\n\n".join(
        [
            *(f"{text}." for text in (example.title, *example.facts)),
            "Exit codes: 0 nothing lost and nothing duplicated, 1 otherwise, 2 a wrong option, 130 Ctrl-C.",
        ]
    )
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(command)
    signal.signal(signal.SIGTERM, _interrupt)
    app()


def _perform(example: Example, rows: int, keep: str, *, theft: bool) -> int:
    kept = Path(keep).absolute() if keep else None
    if kept is not None and kept.exists() and (not kept.is_dir() or any(kept.iterdir())):
        return _say(f"--keep {keep}: it is there and not empty; name a new directory", REFUSED)
    directory = kept or Path(tempfile.mkdtemp(prefix="headgate-example-"))
    code = FOUND_WRONG
    try:
        code = _play(example, rows, directory, theft=theft)
    except KeyboardInterrupt:
        code = _say("interrupted; all that was started is ended", INTERRUPTED)
    except (ServiceError, hg.HeadgateError, KafkaException) as error:
        _say(str(error), code)
    finally:
        if kept is None and code in (0, INTERRUPTED):
            shutil.rmtree(directory, ignore_errors=True)
        else:
            _say(f"what was written is in {directory}", code)
    return code


def _play(example: Example, rows: int, directory: Path, *, theft: bool) -> int:
    tell = Narrator()
    tell.title(example.title, *example.facts)
    tell.say("broker", "Kafka starts")
    with Kafka(directory / "kafka") as kafka:
        tell.say("broker", f"Kafka answers at {kafka.servers}")
        stage = Stage(kafka, directory, rows, tell)
        example.play(stage)
        finding = example.audit(stage)
        if theft:
            _tell(tell, finding)
            steal(kafka, example.output)
            tell.say("thief", f"the first record of topic {example.output} is deleted")
            finding = example.audit(stage)
    _tell(tell, finding)
    return 0 if finding.good else FOUND_WRONG


def _tell(tell: Narrator, finding: Finding) -> None:
    for each in (*finding.verdict.examples, *finding.wrong):
        tell.say("audit", str(each))
    tell.verdict(str(finding.verdict), good=finding.good)


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"example: {' '.join(text.split())}\n")
    return code


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
