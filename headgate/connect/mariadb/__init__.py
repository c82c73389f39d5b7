"""MariaDB and MySQL.

One rule: rows become visible together with a note, in the same transaction of the server, that says which commit they
belong to. So nobody who asks again writes them again.

``mode="staged"``   rows are staged with the checkpoint, and loaded after it is complete
``mode="xa"``       rows are loaded at once, into prepared transactions, which are committed after the checkpoint
"""

from headgate.connect.mariadb.build import sink

__all__ = ["sink"]
