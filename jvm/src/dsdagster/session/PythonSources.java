package dsdagster.session;

import org.apache.spark.sql.execution.datasources.DataSourceManager$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import scala.Some;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * Data sources of other Python packages. Spark imports every package whose name begins with {@code pyspark_} before
 * the first query, in a Python process of its own, which takes 0.7 seconds of processor time. The engine registers
 * the data sources that it reads, so no other one is looked for.
 */
public final class PythonSources {
  private PythonSources() {}

  /** Takes the list of data sources for known and empty, unless Spark has looked already. */
  public static void skipLookup() {
    DataSourceManager$ manager = DataSourceManager$.MODULE$;
    if (manager.dataSourceBuilders().isEmpty()) {
      Map<String, UserDefinedPythonDataSource> none = Map$.MODULE$.empty();
      manager.dataSourceBuilders_$eq(new Some<>(none));
    }
  }
}
