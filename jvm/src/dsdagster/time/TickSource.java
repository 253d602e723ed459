package dsdagster.time;

import dsdagster.rowlog.RowLogs;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
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
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The source of a job's time: one row {@code (ts timestamp)} per advance of its clock. Option {@code ds.job}.
 *
 * <p>Rule: the tick is decided when Spark asks for offsets and is stored in the offset, so a replayed batch has the
 * same time. It is the watermark of its own batch ({@link BatchWatermark}): rows that it releases are emitted in that
 * batch. There is no thread and no timer.
 */
public final class TickSource implements TableProvider, DataSourceRegister {
  private static final long MICROS = 1000;
  private static final StructType SCHEMA = new StructType().add("ts", DataTypes.TimestampType, false);

  @Override
  public String shortName() {
    return "ds-ticks";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return SCHEMA;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new TickTable();
  }

  private record TickTable() implements SupportsRead {
    @Override
    public String name() {
      return "ds-ticks";
    }

    @Override
    public StructType schema() {
      return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      String job = options.get("ds.job");
      return () -> new TickScan(job);
    }
  }

  private record TickScan(String job) implements Scan {
    @Override
    public StructType readSchema() {
      return SCHEMA;
    }

    @Override
    public String description() {
      return "ds-ticks " + job;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new TickStream(job, Clocks.of(job));
    }
  }

  private static final class TickStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final String job;
    private final JobClock clock;

    TickStream(String job, JobClock clock) {
      this.job = job;
      this.clock = clock;
    }

    @Override
    public Offset initialOffset() {
      return TickOffset.INITIAL;
    }

    @Override
    public Offset deserializeOffset(String json) {
      return TickOffset.parse(json);
    }

    @Override
    public Offset latestOffset() {
      throw new UnsupportedOperationException("asked with a start offset only");
    }

    /** Null before time is known: an offset would make Spark run a batch without rows. */
    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      TickOffset next = clock.next((TickOffset) start);
      if (next.isInitial()) {
        return null;
      }
      BatchWatermark.raise(job, Math.floorDiv(next.tick(), MICROS));
      return next;
    }

    @Override
    public void prepareForTriggerAvailableNow() {
      clock.freeze();
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      clock.begin((TickOffset) start);
      long from = ((TickOffset) start).tick();
      long to = ((TickOffset) end).tick();
      RowLogs.timeMoves(job, to);
      return to > from ? new InputPartition[] {new TickPartition(to)} : new InputPartition[0];
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return new TickReaders();
    }

    @Override
    public void commit(Offset end) {
      // There is nothing to delete per tick.
    }

    @Override
    public void stop() {
      // The clock belongs to the job.
    }

    @Override
    public String toString() {
      return "ds-ticks";
    }
  }

  private record TickPartition(long tick) implements InputPartition {}

  private record TickReaders() implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new TickReader(((TickPartition) partition).tick());
    }
  }

  private static final class TickReader implements PartitionReader<InternalRow> {
    private final long tick;
    private boolean read;

    TickReader(long tick) {
      this.tick = tick;
    }

    @Override
    public boolean next() {
      boolean first = !read;
      read = true;
      return first;
    }

    @Override
    public InternalRow get() {
      return new GenericInternalRow(new Object[] {tick});
    }

    @Override
    public void close() {
      // Holds nothing.
    }
  }
}
