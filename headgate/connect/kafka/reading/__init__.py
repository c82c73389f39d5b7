"""Kafka in: ``source``, the options of its two clients, and what brokers say about topics.

One rule: Spark reads; what is here asks and checks, and has no record in its hands.
"""
