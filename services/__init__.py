"""Real servers for tests and examples, on the loopback only: Kafka, PostgreSQL, MariaDB, OpenSearch, HBase.

One rule: a server that a process started never outlives it. What is not here: anything that Headgate needs at run time.
"""
