package dsdagster.kafka.read;

import dsdagster.time.WrappedStream;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The stream of a {@link RecordSource}: Spark's stream of Kafka, with {@link RecordReaders} and {@link TaskRanges}. */
class RecordStream extends WrappedStream {
  private final TaskRanges tasks;

  RecordStream(MicroBatchStream inner, CaseInsensitiveStringMap options) {
    super(inner);
    tasks = new TaskRanges(options);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return tasks.of(super.planInputPartitions(start, end));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RecordReaders();
  }
}
