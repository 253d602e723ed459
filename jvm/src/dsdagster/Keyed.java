package dsdagster;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What keyed operators share: rows grouped by their first columns.
 *
 * <p>Rule: keys are flat columns, since a struct would be sorted without a prefix; a key with nulls is a group like any
 * other.
 */
public final class Keyed {
  /** Last column of weighted rows: how many of the row appear, negative when they go. Never zero. */
  public static final String WEIGHT = "w";

  private static final String BYTES = "key";

  private Keyed() {}

  /** Rows grouped by their first {@code keys} columns. */
  public static KeyValueGroupedDataset<Row, Row> grouped(Dataset<Row> rows, int keys) {
    return grouped(rows, keySchema(rows.schema(), keys));
  }

  /** Rows grouped by their first columns, which are of this schema, that of the key in the state. */
  public static KeyValueGroupedDataset<Row, Row> grouped(Dataset<Row> rows, StructType key) {
    Column[] columns = new Column[key.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = rows.col(rows.columns()[i]);
    }
    return rows.groupBy(columns).as(Encoders.row(key), Encoders.row(rows.schema()));
  }

  /**
   * Rows brought down within each task, where several share a key.
   *
   * @param rows the key's columns, then others
   * @param shrink takes rows of the key's bytes and the others; gives rows of the key's bytes and those of {@code made}
   * @param made columns behind the key's that come out
   */
  public static Dataset<Row> shrunk(
      Dataset<Row> rows, int keys, MapPartitionsFunction<Row, Row> shrink, StructType made) {
    StructType key = keySchema(rows.schema(), keys);
    Column[] parts = new Column[keys];
    List<Column> sent = new ArrayList<>();
    for (int i = 0; i < rows.columns().length; i++) {
      Column column = rows.col(rows.columns()[i]);
      if (i < keys) {
        parts[i] = column;
      } else {
        sent.add(column);
      }
    }
    sent.add(0, Expressions.pack(functions.struct(parts), key).as(BYTES));
    StructType output = new StructType().add(BYTES, DataTypes.BinaryType);
    for (StructField field : made.fields()) {
      output = output.add(field);
    }
    Dataset<Row> few = rows.select(sent.toArray(new Column[0])).mapPartitions(shrink, Encoders.row(output));
    Dataset<Row> opened = few.withColumn(BYTES, Expressions.unpack(few.col(BYTES), key));
    List<Column> found = new ArrayList<>();
    for (StructField field : key.fields()) {
      found.add(opened.col(BYTES).getField(field.name()).as(field.name()));
    }
    for (StructField field : made.fields()) {
      found.add(opened.col(field.name()));
    }
    return opened.select(found.toArray(new Column[0]));
  }

  public static StructType keySchema(StructType schema, int keys) {
    StructType found = new StructType();
    for (int i = 0; i < keys; i++) {
      found = found.add(schema.fields()[i]);
    }
    return found;
  }

  public static Iterator<Row> iterator(List<Row> rows) {
    return CollectionConverters.asScala(rows.iterator());
  }
}
