package dsdagster.kafka;

import dsdagster.time.TimedSource;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source for queries that go on past records that are gone: it skips them by itself ({@code
 * failOnDataLoss=false}) but tells nobody how many. Options are those of the Kafka source, with {@code subscribe}.
 */
public final class SkippingSource implements TableProvider, DataSourceRegister {
  private static final String FORMAT = "kafka";
  private TableProvider inner;

  @Override
  public String shortName() {
    return "ds-kafka-skipping";
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return inner().inferSchema(options);
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return inner().inferPartitioning(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new SkippingTable((SupportsRead) inner().getTable(schema, partitioning, properties));
  }

  private TableProvider inner() {
    if (inner == null) {
      inner = TimedSource.provider(FORMAT);
    }
    return inner;
  }

  private record SkippingTable(SupportsRead inner) implements SupportsRead {
    @Override
    public String name() {
      return inner.name();
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return inner.schema();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return EnumSet.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Scan scan = inner.newScanBuilder(options).build();
      return () -> new SkippingScan(scan, options);
    }
  }

  private record SkippingScan(Scan inner, CaseInsensitiveStringMap options) implements Scan {
    @Override
    public StructType readSchema() {
      return inner.readSchema();
    }

    @Override
    public String description() {
      return inner.description();
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return inner.supportedCustomMetrics();
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
      return inner.reportDriverMetrics();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new SkippingStream(inner.toMicroBatchStream(checkpoint), new LogStarts(options));
    }
  }
}
