"""Readings of sensors, for the comparisons in Python: what they are, for Spark, for Flink and for numpy.

Reading n is a function of n. Every 10,000 readings have each sensor once, so the one before it of a sensor is 10,000
earlier. Values are near to random.
"""

SENSORS = 10_000
JUMP = 9.5
WINDOW_MS = 600_000
ROWS_PER_WINDOW = WINDOW_MS // SENSORS
"""How many readings of a sensor are in a window: one every millisecond, of all sensors in turn."""

SPARK = (
    "n",
    f"concat('sensor-', cast({SENSORS} + (n * 7919) % {SENSORS} as string)) as sensor",
    "cast((n * n) % 10007 as double) / 1000 as value",
    "timestamp_millis(n) as at",
)
FLINK = f"""
    sensor AS CONCAT('sensor-', CAST({SENSORS} + MOD(n * 7919, {SENSORS}) AS STRING)),
    `value` AS CAST(MOD(n * n, 10007) AS DOUBLE) / 1000,
    `at` AS TO_TIMESTAMP_LTZ(n, 3),
    WATERMARK FOR `at` AS `at` - INTERVAL '10' SECOND
"""
