"""The REST API: a job, or all jobs of storages, over HTTP.

One rule: whoever asks costs the job nothing but the answer, and nobody without the token gets one. What is shown was
recorded elsewhere, and what is asked for is decided by the core; nothing is decided here.

=============== ============================================================================
``process``     the process that runs a job, and where it listens
``server``      all jobs of storages: ``headgate server``
``patience``    a storage that may hang
``catalog``     what both have in common: jobs, and what each can be asked
``listening``   a thread that serves
``access``      who may ask: tokens, names
``broadcast``   events on their way to whoever listens
=============== ============================================================================

These import nothing that serves HTTP. What follows does, and is imported in that thread:

=============== ============================================================================
``connections`` how many, and for how long
``gate``        what every request must show
``app``         the API, its errors and its document, and the web UI beside it
``paths``       the handlers
``asking``      what they share
``models``      what goes in and out: the contract, as docs/rest.md tells it
``shapes``      views under the names of the contract; ``checkpoints`` and ``failures`` too
``ui``          the files of the web UI
=============== ============================================================================

Not here: figures (``headgate.view``), requests to the core (``headgate.run.requests``), commands (``headgate.cli``).
"""
