"""Snapshots by reference.

One rule: a snapshot names files that never change, each with its size and checksum; nothing is copied that is already
where it must be.

``files``    the facts about one file, and how they are checked
``take``     the files of a task at a committed batch, made durable in the storage
``rebuild``  a task's directory, and what is in flight to it, from the files of a checkpoint

Not here: when a snapshot is taken (``headgate.core``), which files of Spark's make one (``headgate.layout``), and the
copies that stand on their own (``headgate.run.savepoints``).
"""
