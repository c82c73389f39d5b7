"""The state that kept checkpoints hold, read by operator and key, and what differs between two of them.

One rule: only kept checkpoints are read, never a running store, and nothing of a job is changed or held up by it. Who
reads is behind one small interface (``StateReader``); today Spark's own state data source does.

``reader``  the interface, and what is asked and answered (pure)
``kept``    which operators a checkpoint has state of, and its files as Spark's reader wants them
``spark``   the reader that asks Spark
"""
