"""Any database that has a JDBC driver and transactions.

One rule: Spark's own writer fills a table beside the target for each attempt, and one transaction of the database takes
over all that a checkpoint pre-committed, with the note that it did.
"""

from headgate.connect.jdbc.build import sink

__all__ = ["sink"]
