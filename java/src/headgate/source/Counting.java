package headgate.source;

import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A streaming source that counts, as far at a time as it is told.
 *
 * <p>One rule: an offset is the number of the next row, in the form of Spark's {@code rate-micro-batch}, so that a
 * checkpoint of one goes on with the other. That one always goes on by the same number: it does not ask how far it may.
 *
 * <p>Options: {@code start_rows} in a batch until Spark says otherwise, {@code partitions}, and {@code end}, the first
 * number that is not counted.
 */
public final class Counting implements TableProvider {
    private static final StructType SCHEMA = new StructType().add("n", DataTypes.LongType, false);
    private static final int CHUNK_ROWS = 16_384;

    /** For Spark. */
    public Counting() {}

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new Numbers();
    }

    private static final class Numbers implements SupportsRead {
        @Override
        public String name() {
            return "headgate-count";
        }

        @Override
        public Column[] columns() {
            return new Column[] {Column.create("n", DataTypes.LongType, false)};
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () -> new Scan() {
                @Override
                public StructType readSchema() {
                    return SCHEMA;
                }

                @Override
                public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
                    return new Stream(
                            options.getLong("start_rows", 1),
                            options.getInt("partitions", 1),
                            options.getLong("end", Long.MAX_VALUE));
                }
            };
        }
    }

    private static final class Stream implements MicroBatchStream, SupportsTriggerAvailableNow {
        private final long startRows;
        private final int partitions;
        private long end;
        private boolean availableNow;

        Stream(long startRows, int partitions, long end) {
            this.startRows = startRows;
            this.partitions = partitions;
            this.end = end;
        }

        @Override
        public Offset initialOffset() {
            return new Next(0);
        }

        @Override
        public Offset deserializeOffset(String json) {
            return Next.parse(json);
        }

        @Override
        public ReadLimit getDefaultReadLimit() {
            return ReadLimit.maxRows(startRows);
        }

        @Override
        public Offset latestOffset(Offset start, ReadLimit limit) {
            long begin = Next.parse(start.json()).number;
            long room = limit instanceof ReadMaxRows most ? most.maxRows() : startRows;
            // A checkpoint of rate-micro-batch may be past the end.
            long reached = Math.max(begin, Math.min(begin + room, end));
            if (availableNow) {
                end = reached;
                availableNow = false;
            }
            return new Next(reached);
        }

        @Override
        public Offset latestOffset() {
            throw new UnsupportedOperationException("Spark asks with a limit");
        }

        /** A query is to end with what there is now: that is one batch more, and then none. */
        @Override
        public void prepareForTriggerAvailableNow() {
            availableNow = true;
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset stop) {
            long begin = Next.parse(start.json()).number;
            long rows = Next.parse(stop.json()).number - begin;
            return IntStream.range(0, partitions)
                    .mapToObj(part -> new Range(begin + cut(rows, part), begin + cut(rows, part + 1)))
                    .filter(range -> range.begin < range.end)
                    .toArray(InputPartition[]::new);
        }

        /** Where a part begins when rows are shared out evenly. */
        private long cut(long rows, int part) {
            return rows / partitions * part + rows % partitions * part / partitions;
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers();
        }

        @Override
        public void commit(Offset offset) {}

        @Override
        public void stop() {}
    }

    private static final class Next extends Offset {
        private static final Pattern FORM = Pattern.compile("\"offset\"\\s*:\\s*(\\d+)");
        private final long number;

        Next(long number) {
            this.number = number;
        }

        static Next parse(String json) {
            Matcher found = FORM.matcher(json);
            if (!found.find()) {
                throw new IllegalArgumentException("the offset " + json + " is not one of a generator");
            }
            return new Next(Long.parseLong(found.group(1)));
        }

        @Override
        public String json() {
            return "{\"offset\":" + number + ",\"timestamp\":0}";
        }
    }

    private static final class Range implements InputPartition {
        private static final long serialVersionUID = 1;
        private final long begin;
        private final long end;

        Range(long begin, long end) {
            this.begin = begin;
            this.end = end;
        }
    }

    private static final class Readers implements PartitionReaderFactory {
        private static final long serialVersionUID = 1;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            throw new UnsupportedOperationException("it is read by columns");
        }

        @Override
        public boolean supportColumnarReads(InputPartition partition) {
            return true;
        }

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            return new Reader((Range) partition);
        }
    }

    private static final class Reader implements PartitionReader<ColumnarBatch> {
        private final long end;
        private final OnHeapColumnVector numbers = new OnHeapColumnVector(CHUNK_ROWS, DataTypes.LongType);
        private final ColumnarBatch batch = new ColumnarBatch(new ColumnVector[] {numbers});
        private long next;

        Reader(Range range) {
            next = range.begin;
            end = range.end;
        }

        @Override
        public boolean next() {
            int rows = (int) Math.min(CHUNK_ROWS, end - next);
            for (int row = 0; row < rows; row++) {
                numbers.putLong(row, next + row);
            }
            next += rows;
            batch.setNumRows(rows);
            return rows > 0;
        }

        @Override
        public ColumnarBatch get() {
            return batch;
        }

        @Override
        public void close() {
            batch.close();
        }
    }
}
