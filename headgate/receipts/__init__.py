"""Receipts: for each checkpoint and sink, what was published with it.

One rule: a receipt says what was seen when it was pre-committed and committed, and is never made up afterwards. What
nobody knows is None; a receipt that is not there is named as missing.

``receipt``    what a receipt says, and its form as plain data
``sequence``      whether the receipts of a sink follow on each other: a gap is missing, an overlap is there twice
``gather``     the receipts of a job, from its history and from the records that are kept
``looking``    what a sink has, read as anybody would, against what its receipts say
``proof``      all of it about one job
``rollback``   what was published after a checkpoint

Not here: how a receipt comes about (``headgate.run.receipts``).
"""

from headgate.receipts.receipt import Receipt

__all__ = ["Receipt"]
