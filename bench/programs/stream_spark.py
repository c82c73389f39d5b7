"""Files to files in plain Structured Streaming."""

from pyspark.sql import SparkSession

from bench.programs.stream import told


def main() -> None:
    """Run it until it is killed."""
    it = told()
    builder = SparkSession.builder.master("local[*]").appName("stream")
    for name, value in it.get("conf", {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.readStream.schema("n BIGINT, user STRING, made DOUBLE").json(it["inbox"])
    if it.get("stateful"):
        rows = rows.dropDuplicates(["n"])
    query = rows.writeStream.format("json").option("path", it["out"])
    query.option("checkpointLocation", f"{it['where']}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main()
