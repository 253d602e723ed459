package dsdagster.kafka.read;

import dsdagster.time.WrappedStream;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;

/** The stream of a {@link RecordSource}: Spark's stream of Kafka, with {@link RecordReaders}. */
class RecordStream extends WrappedStream {
  RecordStream(MicroBatchStream inner) {
    super(inner);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RecordReaders();
  }
}
