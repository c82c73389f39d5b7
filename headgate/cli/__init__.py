"""The command line.

One rule: commands only parse, call and print. What they show was decided in ``headgate.view``, what they ask of a
running job is decided by the core, and every one of them prints JSON if it is asked to.

``app``     what all commands share: how errors end, where a job is found
``run``     run a job, and watch it
``detach``  run a job in the background
``ask``     checkpoint, stop, cancel, forget: what a running job is asked, or done to one at rest
``savepoints`` savepoint: take one, list them, hold, release, label, delete
``progress`` how far something has come that a user waits for
``completion`` what the shell completes
``show``    list, status, checkpoints, plan: what there is to see, also of a job that does not run
``events``  events, logs: what happened, and what was written
``transactions``  what is in doubt, and committing it by hand
``state``   what operators keep, in a kept checkpoint
``server``  all jobs of storages over HTTP
``ui``      the web UI of a running job, in a browser
``audit``   what went in, what came out, what was lost and what was doubled
``doctor``  what is wrong with a job, and whether jobs can run on this machine
``demo``    a whole job, killed half way and counted
``sim``     the simulator, and one of its worlds told in words

Exit codes: 0 all is well; 1 something went wrong, or was found to be wrong; 2 the command could not be carried out as
given, and nothing was touched; 3 another process leads the job now; 130 and 143 interrupted.

Not here: anything that a web page would want to do or show as well.
"""

import os
import sys

from headgate.cli import (
    ask,
    audit,
    demo,
    doctor,
    events,
    run,
    savepoints,
    server,
    show,
    sim,
    state,
    transactions,
    ui,
)
from headgate.cli.app import app
from headgate.run import telling

__all__ = ["app", "main"]

for group in (run, show, events, state, ask, savepoints, transactions, server, ui, audit, doctor, demo, sim):
    group.register(app)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as ended:
        if telling.is_stuck():  # Whoever reads our output does not: nothing more can be said, and Python would wait.
            sys.stderr.flush()
            os._exit(ended.code if isinstance(ended.code, int) else 1)
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # They have gone, and may: let Python not find out again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
