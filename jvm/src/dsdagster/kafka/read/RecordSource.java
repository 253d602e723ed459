package dsdagster.kafka.read;

import dsdagster.time.WrappedSource;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source with readers and tasks of our own, see {@link RecordConsumer}, {@link RecordReader} and {@link
 * TaskRanges}. Offsets, options,
 * columns, metrics and errors are those of Spark's source. Spark's real-time mode needs Spark's own source.
 */
public class RecordSource extends WrappedSource {
  @Override
  public String shortName() {
    return "ds-kafka-records";
  }

  @Override
  protected final String format(CaseInsensitiveStringMap options) {
    return "kafka";
  }

  @Override
  protected MicroBatchStream stream(Scan inner, String checkpoint, CaseInsensitiveStringMap options) {
    return new RecordStream(inner.toMicroBatchStream(checkpoint), options);
  }
}
