package dsdagster.kafka.read;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A {@link RecordSource} for queries that skip lost records, with a count of them: Spark itself skips them ({@code
 * failOnDataLoss=false}) without counting. Options are those of the Kafka source, with {@code subscribe}.
 */
public final class SkippingSource extends RecordSource {
  @Override
  public String shortName() {
    return "ds-kafka-skipping";
  }

  @Override
  protected MicroBatchStream stream(Scan inner, String checkpoint, CaseInsensitiveStringMap options) {
    return new SkippingStream(inner.toMicroBatchStream(checkpoint), options);
  }
}
