"""Where a job's records and files are kept.

One rule: whatever can be read is whole and durable, and a record is created once. Corrupt or foreign data raises, and
is left as it is.

``api``       the five verbs that a storage has, and what each must guarantee; ``open_store``
``local``     a storage that is a folder on this machine
``hadoop``    one that is behind any of Hadoop's file systems, reached through Spark
``folder``    a part of a storage, as a storage
``codec``     records as bytes: JSON with a version and a checksum
``jobstore``  what is where in the storage of one job
``history``   what a job has to tell of its past

Not here: which records and files there should be (the core decides) and what is in the files.
"""
