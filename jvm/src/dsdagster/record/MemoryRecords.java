package dsdagster.record;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.encoders.RowEncoder$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A stream of records in memory, for tests: columns {@code key}, {@code value} (bytes), {@code timestamp}, {@code
 * partition} and {@code order} (texts), as a plan reads them from a broker.
 */
public final class MemoryRecords {
  private static final StructType COLUMNS =
      new StructType()
          .add("key", DataTypes.BinaryType)
          .add("value", DataTypes.BinaryType)
          .add("timestamp", DataTypes.TimestampType)
          .add("partition", DataTypes.StringType)
          .add("order", DataTypes.StringType);

  private MemoryRecords() {}

  /** A new stream with one partition. Its times are {@link Instant}s: Java's older class has another calendar. */
  public static MemoryStream<Row> stream(SparkSession session) {
    return MemoryStream.apply(session, 1, RowEncoder$.MODULE$.encoderFor(COLUMNS, true));
  }

  /**
   * Adds records as one batch.
   *
   * @param framed for each record its key, value, time (milliseconds since 1970), partition and order; each after its
   *     length (four bytes, big-endian; -1 for null), the last three as texts
   */
  public static void add(MemoryStream<Row> stream, byte[] framed) {
    ByteBuffer parts = ByteBuffer.wrap(framed);
    List<Row> rows = new ArrayList<>();
    while (parts.hasRemaining()) {
      byte[] key = part(parts);
      byte[] value = part(parts);
      Instant time = Instant.ofEpochMilli(Long.parseLong(text(parts)));
      rows.add(RowFactory.create(key, value, time, text(parts), text(parts)));
    }
    stream.addData(CollectionConverters.asScala(rows.iterator()).toSeq());
  }

  private static byte[] part(ByteBuffer parts) {
    int size = parts.getInt();
    if (size < 0) {
      return null;
    }
    byte[] part = new byte[size];
    parts.get(part);
    return part;
  }

  private static String text(ByteBuffer parts) {
    return new String(part(parts), StandardCharsets.UTF_8);
  }
}
