package dsdagster.state.keys;

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import scala.Option;

/** Spark's provider of RocksDB, with {@link KnownKeysDB}; with RocksDB itself if Spark is not the pinned version. */
public final class KnownKeysProvider extends RocksDBStateStoreProvider {
  @Override
  public RocksDB createRocksDB(
      String folder,
      RocksDBConf conf,
      File local,
      Configuration hadoop,
      String loggingId,
      boolean hasFamilies,
      boolean hasIds,
      int partition,
      Option<RocksDBEventForwarder> events,
      Option<String> id) {
    try {
      KnownKeysDB.Fields fields = KnownKeysDB.Fields.find();
      return new KnownKeysDB(
          folder, conf, local, hadoop, loggingId, hasFamilies, hasIds, partition, events, id, fields);
    } catch (NoSuchFieldException otherSpark) {
      return super.createRocksDB(
          folder, conf, local, hadoop, loggingId, hasFamilies, hasIds, partition, events, id);
    }
  }
}
