"""What there is to see of a job: folds over recorded events and stored facts.

One rule: a view is plain data, made from what was recorded and from nothing else. It reads no clock, no disk and no
terminal, so a command, a web page and a test all show the same.

``recorder``     steps of the core into lines of history
``timing``       how long each part of a checkpoint took
``batches``      what Spark says of a batch
``rocksdb``      which of its figures of RocksDB are kept
``busy``         what part of late a task was busy, backpressured, idle
``figures``      those and others of each task: counts, rates, watermarks, state, lag
``sinks``        what the sinks have committed, and owe
``states``       how long the job was in which state
``recoveries``   how long each part of a recovery took
``history``      lines of history into what they say about a job's latest execution
``job``          status and checkpoints: of a job that runs, and of one that does not
``text``         those views for people, with rich; the one module here that knows what a terminal is

Not here: reading a storage or asking a running job (``headgate.cli`` does, through ``headgate.run.control``).
"""
