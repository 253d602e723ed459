package dsdagster.time;

import dsdagster.OperatorFault;
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
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/** A micro-batch source that wraps the stream of an inner source and delegates the rest to it. */
public abstract class WrappedSource implements TableProvider, DataSourceRegister {
  private TableProvider inner;

  /** The format of the inner source. */
  protected abstract String format(CaseInsensitiveStringMap options);

  /** The options of the inner source. */
  protected CaseInsensitiveStringMap passed(CaseInsensitiveStringMap options) {
    return options;
  }

  /** The stream of a scan of the inner source. */
  protected abstract MicroBatchStream stream(Scan inner, String checkpoint, CaseInsensitiveStringMap options);

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return inner(options).inferSchema(passed(options));
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return inner(options).inferPartitioning(passed(options));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    Map<String, String> given = passed(options).asCaseSensitiveMap();
    return new WrappedTable(this, (SupportsRead) inner(options).getTable(schema, partitioning, given));
  }

  private TableProvider inner(CaseInsensitiveStringMap options) {
    if (inner == null) {
      inner = provider(format(options));
    }
    return inner;
  }

  /**
   * Provider of a format. Spark hides some formats, such as Kafka, from this look-up; they are created from their
   * class.
   */
  private static TableProvider provider(String format) {
    Option<TableProvider> found = DataSource$.MODULE$.lookupDataSourceV2(format, SQLConf.get());
    if (found.isDefined()) {
      return found.get();
    }
    Class<?> type = DataSource$.MODULE$.lookupDataSource(format, SQLConf.get());
    if (!TableProvider.class.isAssignableFrom(type)) {
      throw new OperatorFault("SOURCE_NOT_WRAPPABLE", "format " + format + " is not a data source of version 2");
    }
    try {
      return (TableProvider) type.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException failure) {
      throw new OperatorFault("SOURCE_NOT_WRAPPABLE", "format " + format + " cannot be made", failure);
    }
  }

  private record WrappedTable(WrappedSource source, SupportsRead inner) implements SupportsRead {
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
      Scan scan = inner.newScanBuilder(source.passed(options)).build();
      return () -> new WrappedScan(source, scan, options);
    }
  }

  private record WrappedScan(WrappedSource source, Scan inner, CaseInsensitiveStringMap options) implements Scan {
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
    public ColumnarSupportMode columnarSupportMode() {
      return inner.columnarSupportMode();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return source.stream(inner, checkpoint, options);
    }
  }
}
