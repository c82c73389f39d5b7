"""Payments to balances, from Kafka to Kafka."""
