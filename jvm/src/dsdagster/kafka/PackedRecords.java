package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * The records of one task, packed to be sent to the driver, in the order of the task's rows.
 *
 * @param topic topic of all records
 * @param bytes the records one after the other, see {@link Packing#add}
 */
record PackedRecords(String topic, byte[] bytes) implements WriterCommitMessage {
  private static final int NO_BYTES = -1;

  /** Passes every record to {@code taker}; a record without a timestamp gets {@code millis}. */
  void unpack(long millis, Consumer<ProducerRecord<byte[], byte[]>> taker) {
    try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
      while (in.available() > 0) {
        Integer partition = in.readBoolean() ? in.readInt() : null;
        long timestamp = in.readBoolean() ? in.readLong() : millis;
        byte[] key = read(in);
        ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(topic, partition, timestamp, key, read(in));
        for (int left = in.readInt(); left > 0; left--) {
          made.headers().add(new String(read(in), StandardCharsets.UTF_8), read(in));
        }
        taker.accept(made);
      }
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
  }

  private static byte[] read(DataInputStream in) throws IOException {
    int length = in.readInt();
    return length == NO_BYTES ? null : in.readNBytes(length);
  }

  /** Fault: a batch has more bytes than the driver may hold. */
  static OperatorFault tooLarge(String topic, long mostBytes) {
    return OperatorFault.of("CLUSTER_BATCH_TOO_LARGE", Map.of("topic", topic, "megabytes", mostBytes >> 20));
  }

  /** Packs the records of a running task; at most {@code mostBytes} bytes. */
  static final class Packing {
    private final String topic;
    private final long mostBytes;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final DataOutputStream out = new DataOutputStream(bytes);

    Packing(String topic, long mostBytes) {
      this.topic = topic;
      this.mostBytes = mostBytes;
    }

    void add(ProducerRecord<byte[], byte[]> row) {
      try {
        out.writeBoolean(row.partition() != null);
        if (row.partition() != null) {
          out.writeInt(row.partition());
        }
        out.writeBoolean(row.timestamp() != null);
        if (row.timestamp() != null) {
          out.writeLong(row.timestamp());
        }
        write(row.key());
        write(row.value());
        Header[] headers = row.headers().toArray();
        out.writeInt(headers.length);
        for (Header header : headers) {
          write(header.key().getBytes(StandardCharsets.UTF_8));
          write(header.value());
        }
      } catch (IOException impossible) {
        throw new UncheckedIOException(impossible);
      }
      if (bytes.size() > mostBytes) {
        throw tooLarge(topic, mostBytes);
      }
    }

    private void write(byte[] value) throws IOException {
      out.writeInt(value == null ? NO_BYTES : value.length);
      if (value != null) {
        out.write(value);
      }
    }

    PackedRecords packed() {
      return new PackedRecords(topic, bytes.toByteArray());
    }
  }
}
