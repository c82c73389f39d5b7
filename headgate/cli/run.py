"""Run a job and watch it. One rule: whoever watches changes nothing, and may go at any time.

Nothing needs to be put in order before a process ends: the protocol survives its death at any point. So the first
Ctrl-C or SIGTERM ends the process, once Spark is stopped, and the second ends it at once.
"""

import json
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.cli.app import FileArgument, StorageOption, VerboseOption, load, say
from headgate.cli.detach import Announcement, OnEvent, again, run_detached
from headgate.cli.log import LogFormat, log_event, run_log
from headgate.errors import ExternalError, InvalidOption, UserError
from headgate.run.decisions import checked_reason
from headgate.run.telling import PROGRESS as PROGRESSING
from headgate.view import text
from headgate.view.recorder import PROGRESS

PLAIN_EVERY_MS = 5_000
"""Where no terminal shows it, progress is printed this often."""
SPARK_PROGRESS = "spark.ui.showConsoleProgress"
"""Spark draws a line of its own over ours, unless somebody wants it."""
DEPOSED = 3
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    ctx: typer.Context,
    job: FileArgument,
    restore_from: Annotated[
        str,
        typer.Option(
            "--from", metavar="latest|ID|PATH", help="Begin at a checkpoint, or at the savepoint in a directory."
        ),
    ] = "latest",
    claim: Annotated[
        bool, typer.Option("--claim", help="Delete that directory, once the job has its own copy of the savepoint.")
    ] = False,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="If that checkpoint is damaged, take the newest whole one before it.")
    ] = False,
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Lead in place of another process that runs the job.")
    ] = False,
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="Leave out state that no operator of the job claims.")
    ] = False,
    abandon_commits: Annotated[
        list[str] | None,
        typer.Option(metavar="SINK", help="Give up commits that this sink owes and cannot do. May be repeated."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why commits are given up; written into the job's history.")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="An operator's uid has changed. May be repeated.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="The Spark master.", show_default="what the job says")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark. May be repeated.")
    ] = None,
    storage: StorageOption = None,
    verify: Annotated[
        str,
        typer.Option(
            metavar="full|size|none",
            help="How to check the files of a checkpoint in a local storage first: read them all, look at their sizes, "
            "or not at all.",
        ),
    ] = "full",
    verbose: VerboseOption = False,
    log_format: Annotated[
        LogFormat, typer.Option(metavar="text|json", help="How the log file is written.")
    ] = LogFormat.TEXT,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Start it in the background, and wait only until the job runs.")
    ] = False,
    announce: Annotated[int | None, typer.Option(hidden=True)] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as a line of JSON; with --detach, where the job runs.")
    ] = False,
) -> None:
    """Run a job until it finishes, fails, or is stopped.

    Ctrl-C or SIGTERM ends the process, not the job: nothing is lost, and the next run goes on from the last checkpoint.
    To end the job in good order use `headgate stop`. A second Ctrl-C ends the process at once.

    With --detach the command ends when the job runs, and says as which process, where it answers, and where its log is.
    What went wrong before is said as ever, with the same exit code. Ctrl-C then ends the command, and not the job.

    Example: headgate run job.py --from 12

    Exit codes: 0 it finished, or was stopped or cancelled; 1 it failed; 2 it could not begin as given, or failed on
    something that only you can put right; 3 another process leads it now; 130 Ctrl-C; 143 SIGTERM.
    """
    if detach:
        run_detached(again(ctx), as_json=as_json)
        return
    announcement = None if announce is None else Announcement(announce)
    renamed = tuple(_pair("--rename", each, "OLD=NEW") for each in rename or ())
    settings = dict(_pair("--conf", each, "KEY=VALUE") for each in conf or ())
    why = checked_reason(reason, "giving up commits") if abandon_commits else ""
    described = load(job)
    if SPARK_PROGRESS not in described.spark_conf:
        settings.setdefault(SPARK_PROGRESS, "false")
    from headgate.run import start  # noqa: PLC0415 - Spark is imported only where it is needed

    restore_options = start.Options(
        restore_from=restore_from,
        claim=claim,
        fallback=fallback,
        takeover=takeover,
        allow_non_restored_state=allow_non_restored_state,
        abandon_commits=tuple(abandon_commits or ()),
        reason=why,
        renamed=renamed,
        master=master,
        conf=settings,
        storage=storage,
        verify=verify,
    )
    interruption = Interruption()
    with run_log(described.name, verbose=verbose, form=log_format) as log:
        try:
            with watcher(as_json=as_json) as show:
                if announcement is None:
                    result = start.run(described, restore_options, logged(show))
                else:
                    announcement.begin(described.name, str(log))
                    result = start.run(
                        described, restore_options, announcement.also(logged(show)), attach=announcement.attach
                    )
        except KeyboardInterrupt:
            say("interrupted: nothing is lost, and `headgate run` goes on from the last checkpoint")
            raise typer.Exit(128 + interruption.number) from None
        except ExternalError as error:
            raise ExternalError(f"{error} (log: {log})") from error
    if result.failure is not None:
        say(f"{result.failure} (log: {log})")
        raise typer.Exit(2 if isinstance(result.failure, UserError) else 1)
    if announcement is not None:
        announcement.over(str(result))
    raise typer.Exit(DEPOSED if result.deposed else 0)


def _pair(option: str, given: str, form: str) -> tuple[str, str]:
    left, equals, right = given.partition("=")
    if not left or not equals or (option == "--rename" and not right):
        raise InvalidOption(f"{option} {given}: write {option} {form}")
    return left, right


class Interruption:
    """What Ctrl-C and SIGTERM do: the first raises ``KeyboardInterrupt``, the next one kills."""

    def __init__(self) -> None:
        """From now on."""
        self.number = int(signal.SIGINT)
        self._arm()

    def _arm(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._first)

    def _first(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt


# -- watching --------------------------------------------------------------------------------------------------------


def watcher(*, as_json: bool) -> AbstractContextManager[OnEvent]:
    """What shows a job's events: as JSON, on a terminal, or as plain lines."""
    if as_json:
        return nullcontext(_print_json)
    console = Console(markup=False, emoji=False, highlight=False)
    return _Terminal(console) if console.is_terminal else nullcontext(_Plain())


def logged(show: OnEvent) -> OnEvent:
    """The same, and in the log too."""

    def tell(line: dict[str, Any]) -> None:
        if line["event"] not in PROGRESSING:
            log_event(line)
        show(line)

    return tell


def _print_json(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class _Plain:
    """Every event in a line, and progress every few seconds."""

    def __init__(self) -> None:
        self._progress_ms: int | None = None

    def __call__(self, line: dict[str, Any]) -> None:
        if line["event"] == PROGRESS:
            if self._progress_ms is not None and line["at"] - self._progress_ms < PLAIN_EVERY_MS:
                return
            self._progress_ms = line["at"]
            shown: str | None = text.progress(line)
        else:
            shown = text.event(line)
        if shown is not None:
            sys.stdout.write(f"{text.clock(line['at'])} {shown}\n")
            sys.stdout.flush()


class _Terminal(AbstractContextManager[OnEvent]):
    """Every event in a line, and below them one line of progress that changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> OnEvent:
        self._live.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _show(self, line: dict[str, Any]) -> None:
        if line["event"] == PROGRESS:
            self._live.update(Text(text.progress(line), no_wrap=True, overflow="ellipsis"), refresh=True)
            return
        shown = text.event(line)
        if shown is not None:
            self._console.print(f"{text.clock(line['at'])} {shown}")
