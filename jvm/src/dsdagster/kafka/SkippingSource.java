package dsdagster.kafka;

import dsdagster.time.WrappedSource;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source for queries that skip lost records, with a count of them: Spark itself skips them ({@code
 * failOnDataLoss=false}) without counting. Options are those of the Kafka source, with {@code subscribe}.
 */
public final class SkippingSource extends WrappedSource {
  @Override
  public String shortName() {
    return "ds-kafka-skipping";
  }

  @Override
  protected String format(CaseInsensitiveStringMap options) {
    return "kafka";
  }

  @Override
  protected MicroBatchStream stream(Scan inner, String checkpoint, CaseInsensitiveStringMap options) {
    return new SkippingStream(inner.toMicroBatchStream(checkpoint), new LogStarts(options));
  }
}
