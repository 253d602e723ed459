package dsdagster.kafka.read;

import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.kafka010.consumer.FetchedDataPool;
import org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer;
import org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumerPool;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;

/**
 * The consumers of one process, kept from batch to batch in Spark's own pools; sizes and times are those of {@code
 * spark.kafka.consumer.cache.*} and {@code spark.kafka.consumer.fetchedData.cache.*}.
 */
final class RecordConsumers {
  private static final SparkConf CONF = SparkEnv.get().conf();
  private static final InternalKafkaConsumerPool CONSUMERS =
      new InternalKafkaConsumerPool(new Factory(), new InternalKafkaConsumerPool.PoolConfig(CONF));
  private static final FetchedDataPool FETCHED = new FetchedDataPool(CONF);

  private RecordConsumers() {}

  /** A consumer for the task; the task releases it. A retried task gets a new one, as from Spark's source. */
  static KafkaDataConsumer acquire(TopicPartition partition, Map<String, Object> settings) {
    TaskContext task = TaskContext.get();
    if (task != null && task.attemptNumber() >= 1) {
      KafkaDataConsumer.CacheKey key = new KafkaDataConsumer.CacheKey(partition, settings);
      CONSUMERS.invalidateKey(key);
      FETCHED.invalidate(key);
    }
    return new KafkaDataConsumer(partition, settings, CONSUMERS, FETCHED);
  }

  private static final class Factory extends InternalKafkaConsumerPool.ObjectFactory {
    @Override
    public InternalKafkaConsumer create(KafkaDataConsumer.CacheKey key) {
      Map<String, Object> settings = keyToKafkaParams().get(key);
      if (settings == null) {
        throw new IllegalStateException("no settings for a consumer of " + key.topicPartition());
      }
      return new RecordConsumer(key.topicPartition(), settings);
    }
  }
}
