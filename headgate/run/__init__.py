"""Running a job: the driver loop, and the wiring of everything it needs.

One rule: receive, record, step, perform. The loop decides nothing; whatever is decided is decided in ``headgate.core``.

``start``     from a job and the user's options to a running job: all that can be refused is refused here
``preflight`` who leads, where to begin, and whether what is there is whole
``loop``      the mailbox, the clock and the core
``perform``   how each order of the core is carried out
``tasks``     how a planned task becomes work for a Spark query
``batch_runs`` which run wrote what counts of each batch
``storage``   orders about the storage: publish, copy, list, delete
``savepoints`` checkpoints that stand on their own: copied, carried away, brought in
``exporting`` savepoints that are written to another place
``keeping``   what users keep, and what they call it
``serial``    one thread for each thing that must keep its order
``requests``  what users ask of a running job, and what became of it
``control``   how commands reach the process that runs a job
``describing`` what a job is, for those who look at it later
``past``      a job's past, by pages
``logfiles``  the log files of jobs on this machine
``client``    a job in a thread of this process, for notebooks

Not here: rules (``headgate.core``), and what users see (``headgate.view``, ``headgate.cli``).
"""
