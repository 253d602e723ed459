package dsdagster;

import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Groups the rows of keyed operators by their first columns.
 *
 * <p>Rule: keys are flat columns, since a struct would be sorted without a prefix; a key with nulls is a group like any
 * other.
 */
public final class Keyed {
  /** Last column of weighted rows: how many copies of the row are added, or retracted if negative. Never zero. */
  public static final String WEIGHT = "w";

  private Keyed() {}

  /** Rows grouped by their first {@code keys} columns. */
  public static KeyValueGroupedDataset<Row, Row> grouped(Dataset<Row> rows, int keys) {
    return grouped(rows, keySchema(rows.schema(), keys));
  }

  /** Rows grouped by their first columns, which have this type. */
  public static KeyValueGroupedDataset<Row, Row> grouped(Dataset<Row> rows, StructType keyType) {
    Column[] columns = new Column[keyType.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = rows.col(rows.columns()[i]);
    }
    return rows.groupBy(columns).as(Encoders.row(keyType), Encoders.row(rows.schema()));
  }

  public static StructType keySchema(StructType schema, int keys) {
    StructType found = new StructType();
    for (int i = 0; i < keys; i++) {
      found = found.add(schema.fields()[i]);
    }
    return found;
  }

  /** The first columns, any of which may be null. */
  public static StructType nullableKey(StructType schema, int keys) {
    return (StructType) keySchema(schema, keys).asNullable();
  }

  public static Iterator<Row> iterator(List<Row> rows) {
    return CollectionConverters.asScala(rows.iterator());
  }
}
