"""Orders to sums of windows, from Kafka to Kafka."""
