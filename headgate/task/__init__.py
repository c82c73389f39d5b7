"""Tasks: Spark streaming queries that work under orders.

One rule: a task does what it is told and says what happened; it decides nothing. What it says of a batch, it says once
Spark's own files show it.

``session``   the Spark session and what Headgate needs set in it
``java``      which Java Spark runs on
``lifecycle`` the states of a run, and what may happen in each
``query``     one run of one task: start, hook, stop, drain
``launches``  Spark's queries of one run, one after the other
``heartbeat`` when a run was last heard of
``listener``  Spark's events, handed to the run they are about
``failure``   who must act on a failure

Not here: what a query reads and writes (handed in by ``run``), and the layout of Spark's files (``headgate.layout``).
"""
