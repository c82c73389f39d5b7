"""Counting: what went into a job, what came out of it, what was lost and what was doubled.

One rule: whoever counts is an ordinary reader. Nothing here knows how Headgate writes; a file, a topic or a table is
read as anybody would read it, and every record proves itself by its key and its sequence number.

``counting``   two sets of records against each other
``places``     what a user writes for a place, and who reads it
``files``      Parquet, JSON and CSV in a directory
``topics``     a topic of Kafka, as a read-committed consumer sees it
``tables``     a table of PostgreSQL

Not here: whether sums and averages are right. A job that sums up carries the numbers of what it summed, as a list.
"""

from headgate.audit.counting import Example, Verdict, count
from headgate.audit.places import read

__all__ = ["Example", "Verdict", "count", "read"]
