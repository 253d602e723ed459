package dsdagster.kafka;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Kafka sink that shows every batch exactly once to {@code read_committed} readers: one transaction per batch, with the
 * batch's number committed as a consumer-group offset inside it. Options and columns: {@link SinkSettings}.
 *
 * <p>Rule: only the driver's process has the transaction; see {@link BatchWrite} for tasks in other processes.
 */
public final class TransactionalSink implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "ds-kafka";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new SinkTable(schema);
  }

  private record SinkTable(StructType schema) implements SupportsWrite {
    @Override
    public String name() {
      return "ds-kafka";
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(
          TableCapability.STREAMING_WRITE, TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new SinkBuilder(info);
    }
  }

  private record SinkBuilder(LogicalWriteInfo info) implements SupportsStreamingUpdateAsAppend {
    @Override
    public Write build() {
      SinkSettings settings = SinkSettings.of(info.options(), info.schema());
      return new Write() {
        @Override
        public StreamingWrite toStreaming() {
          return new BatchWrite(settings);
        }

        @Override
        public org.apache.spark.sql.connector.write.BatchWrite toBatch() {
          return new EpochWrite(settings, settings.epoch());
        }
      };
    }
  }
}
