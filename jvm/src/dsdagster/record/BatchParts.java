package dsdagster.record;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The records of a batch as one byte array: for each record its key and its value, each after its length (four bytes,
 * big-endian; -1 for null).
 *
 * <p>It iterates over the rows of the batch's own plan: a query over the batch would be analysed, planned and compiled
 * again for each batch.
 */
public final class BatchParts implements Serializable {
  private static final long serialVersionUID = 1L;

  private final int[] columns;
  private final boolean[] texts;

  private BatchParts(StructType schema, int... columns) {
    this.columns = columns;
    this.texts = new boolean[columns.length];
    for (int part = 0; part < columns.length; part++) {
      texts[part] = columns[part] >= 0 && isText(schema.apply(columns[part]).dataType());
    }
  }

  /**
   * Runs the batch.
   *
   * @param batch DataFrame from foreachBatch
   * @param key index of the key's column (BINARY or STRING); negative without one
   * @param value index of the value's column
   */
  public static byte[] collect(Dataset<Row> batch, int key, int value) {
    BatchParts parts = new BatchParts(batch.schema(), key, value);
    List<byte[]> found = rows(batch).toJavaRDD().map(parts::framed).collect();
    int size = found.stream().mapToInt(record -> record.length).sum();
    ByteBuffer all = ByteBuffer.allocate(size);
    found.forEach(all::put);
    return all.array();
  }

  static RDD<InternalRow> rows(Dataset<Row> batch) {
    LogicalPlan plan = batch.logicalPlan();
    return plan instanceof LogicalRDD ? ((LogicalRDD) plan).rdd() : batch.queryExecution().toRdd();
  }

  private static boolean isText(DataType type) {
    if (type.equals(DataTypes.BinaryType)) {
      return false;
    }
    if (type.equals(DataTypes.StringType)) {
      return true;
    }
    throw new IllegalArgumentException("neither text nor bytes: " + type.simpleString());
  }

  private byte[] framed(InternalRow row) {
    byte[][] found = new byte[columns.length][];
    int size = 0;
    for (int part = 0; part < columns.length; part++) {
      found[part] = part(row, part);
      size += Integer.BYTES + (found[part] == null ? 0 : found[part].length);
    }
    ByteBuffer made = ByteBuffer.allocate(size);
    for (byte[] part : found) {
      made.putInt(part == null ? -1 : part.length);
      made.put(part == null ? new byte[0] : part);
    }
    return made.array();
  }

  private byte[] part(InternalRow row, int part) {
    int column = columns[part];
    if (column < 0 || row.isNullAt(column)) {
      return null;
    }
    return texts[part] ? row.getUTF8String(column).getBytes() : row.getBinary(column);
  }
}
