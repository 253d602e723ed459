package dsdagster.alarm;

import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Base of operators that visit a key when rows of the key arrive, and again at times for which they set an alarm.
 *
 * <p>One of Spark's timers per key costs nine reads and writes of the state store during its life: two fifths of the
 * time of a temporal join of 10,000 keys. Here one timer serves all keys of a partition, see {@link Alarms}.
 */
public abstract class AlarmedProcessor extends StatefulProcessor<Row, Row, Row> {
  private static final long serialVersionUID = 1L;

  private final StructType keyType;
  private final boolean timed;
  private transient Alarms alarms;
  private transient Row key;

  /**
   * @param keyType type of the grouping key, as Spark decodes it
   * @param timed whether the operator runs in event time; without it no alarm may be set
   */
  protected AlarmedProcessor(StructType keyType, boolean timed) {
    this.keyType = keyType;
    this.timed = timed;
  }

  /** Gets the operator's own state from the handle. */
  protected abstract void open();

  /**
   * Visits a key. State may be read and written while the result is iterated: it is iterated to its end before the next
   * key is visited.
   *
   * @param rows new rows of the key; none at an alarm
   * @param watermark milliseconds
   */
  protected abstract Iterator<Row> look(Row key, Iterator<Row> rows, long watermark);

  /** Sets an alarm: the key is visited when the watermark reaches the time, after all rows of that batch. */
  protected final void alarm(long millis) {
    alarms.set(key, millis);
  }

  /** Drops the key's alarm that is due in this batch, if its work is done already. */
  protected final void silence() {
    alarms.silence(key);
  }

  @Override
  public final void init(OutputMode outputMode, TimeMode timeMode) {
    if (timed) {
      alarms = new Alarms(getHandle(), keyType);
    }
    open();
  }

  @Override
  public final scala.collection.Iterator<Row> handleInputRows(
      Row key, scala.collection.Iterator<Row> rows, TimerValues times) {
    long watermark = timed ? times.getCurrentWatermarkInMs() : 0;
    if (timed) {
      alarms.begin(watermark);
    }
    this.key = key;
    return CollectionConverters.asScala(look(key, CollectionConverters.asJava(rows), watermark));
  }

  @Override
  public final scala.collection.Iterator<Row> handleExpiredTimer(
      Row partition, TimerValues times, ExpiredTimerInfo expired) {
    long watermark = times.getCurrentWatermarkInMs();
    return CollectionConverters.asScala(alarms.ring(watermark, due -> {
      this.key = due;
      return look(due, Collections.emptyIterator(), watermark);
    }));
  }

  /** Alarms that were not stored would be lost: fail the batch instead. */
  @Override
  public final void close() {
    if (alarms != null) {
      alarms.close();
    }
  }
}
