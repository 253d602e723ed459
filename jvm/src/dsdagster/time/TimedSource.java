package dsdagster.time;

import dsdagster.OperatorFault;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Locale;
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
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.DataSource$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * Any micro-batch source with a clock: everything is left to the inner source, and every look for new data is told to
 * the job's clock. Options: {@code ds.inner} (format), {@code ds.job}, {@code ds.input}, {@code ds.guard=kafka} (open
 * upstream transactions hold time); all other options belong to the inner source.
 */
public final class TimedSource implements TableProvider, DataSourceRegister {
  private static final String OWN_PREFIX = "ds.";
  private TableProvider inner;

  @Override
  public String shortName() {
    return "ds-timed";
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return inner(options).inferSchema(innerOptions(options));
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return inner(options).inferPartitioning(innerOptions(options));
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    TableProvider provider = inner(options);
    Map<String, String> passed = innerOptions(options).asCaseSensitiveMap();
    return new TimedTable((SupportsRead) provider.getTable(schema, partitioning, passed));
  }

  private TableProvider inner(CaseInsensitiveStringMap options) {
    if (inner == null) {
      inner = provider(options.get("ds.inner"));
    }
    return inner;
  }

  /** Spark hides some formats (Kafka among them) from this look-up, for batches only: those are made from their class. */
  public static TableProvider provider(String format) {
    Option<TableProvider> found = DataSource$.MODULE$.lookupDataSourceV2(format, SQLConf.get());
    if (found.isDefined()) {
      return found.get();
    }
    Class<?> type = DataSource$.MODULE$.lookupDataSource(format, SQLConf.get());
    if (!TableProvider.class.isAssignableFrom(type)) {
      throw new OperatorFault("SOURCE_NOT_WRAPPABLE", "format " + format + " is no data source of version 2");
    }
    try {
      return (TableProvider) type.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException failure) {
      throw new OperatorFault("SOURCE_NOT_WRAPPABLE", "format " + format + " cannot be made", failure);
    }
  }

  private static CaseInsensitiveStringMap innerOptions(CaseInsensitiveStringMap options) {
    HashMap<String, String> passed = new HashMap<>(options.asCaseSensitiveMap());
    passed.keySet().removeIf(name -> name.toLowerCase(Locale.ROOT).startsWith(OWN_PREFIX));
    return new CaseInsensitiveStringMap(passed);
  }

  private record TimedTable(SupportsRead inner) implements SupportsRead {
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
      Scan scan = inner.newScanBuilder(innerOptions(options)).build();
      return () -> new TimedScan(scan, options);
    }
  }

  private record TimedScan(Scan inner, CaseInsensitiveStringMap options) implements Scan {
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
      JobClock clock = Clocks.of(options.get("ds.job"));
      String input = options.get("ds.input");
      clock.input(input);
      LogEnds guard = "kafka".equals(options.get("ds.guard")) ? LogEnds.kafka(innerOptions(options)) : LogEnds.NONE;
      MicroBatchStream stream = inner.toMicroBatchStream(checkpoint);
      return stream instanceof AcceptsLatestSeenOffset
          ? new TimedStream.WithLatestSeen(stream, clock, input, guard)
          : new TimedStream(stream, clock, input, guard);
    }
  }
}
