package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.StructType;

/**
 * Indexes of the columns that are the parts of a record; -1 for a part without a column. Tasks get only this from the
 * sink's settings, so that no password of a broker is sent with them.
 */
record RecordColumns(String topic, int key, int value, int headers, int partition, int timestamp)
    implements Serializable {
  private static final long MICROS_PER_MILLI = 1000;

  static RecordColumns of(String topic, StructType schema) {
    List<String> names = Arrays.asList(schema.fieldNames());
    RecordColumns columns =
        new RecordColumns(
            topic,
            binary(schema, names, "key"),
            binary(schema, names, "value"),
            names.indexOf("headers"),
            names.indexOf("partition"),
            names.indexOf("timestamp"));
    if (columns.value < 0) {
      throw new OperatorFault("KAFKA_SINK_COLUMNS", "the Kafka sink needs a binary column \"value\", got " + names);
    }
    return columns;
  }

  private static int binary(StructType schema, List<String> names, String name) {
    int index = names.indexOf(name);
    if (index >= 0 && !(schema.fields()[index].dataType() instanceof BinaryType)) {
      throw new OperatorFault("KAFKA_SINK_COLUMNS", "column \"" + name + "\" of the Kafka sink has to be binary");
    }
    return index;
  }

  /**
   * The record of a row.
   *
   * @param millis timestamp for a row that has none; null: the record gets no timestamp
   */
  ProducerRecord<byte[], byte[]> record(InternalRow row, Long millis) {
    Integer place = partition < 0 || row.isNullAt(partition) ? null : row.getInt(partition);
    ProducerRecord<byte[], byte[]> made =
        new ProducerRecord<>(topic, place, timestamp(row, millis), bytes(row, key), bytes(row, value));
    if (headers >= 0 && !row.isNullAt(headers)) {
      ArrayData pairs = row.getArray(headers);
      for (int i = 0; i < pairs.numElements(); i++) {
        InternalRow pair = pairs.getStruct(i, 2);
        made.headers().add(new RecordHeader(pair.getUTF8String(0).toString(), bytes(pair, 1)));
      }
    }
    return made;
  }

  private static byte[] bytes(InternalRow row, int column) {
    return column < 0 || row.isNullAt(column) ? null : row.getBinary(column);
  }

  private Long timestamp(InternalRow row, Long millis) {
    if (timestamp < 0 || row.isNullAt(timestamp)) {
      return millis;
    }
    return Math.floorDiv(row.getLong(timestamp), MICROS_PER_MILLI);
  }
}
