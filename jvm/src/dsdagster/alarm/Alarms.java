package dsdagster.alarm;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.ImplicitGroupingKeyTracker;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.types.StructType;

/**
 * The alarms of all keys of a partition, on one timer of Spark.
 *
 * <p>They are the state of one key whose columns are all null; a group with that key has its state under other names.
 * The first rows of a batch set the timer to the present time, so that it fires after the last rows. Only then the due
 * alarms ring, also those that the batch itself has set, and the others are written. If an alarm rang one batch later,
 * its rows would be late for the operators above.
 *
 * <p>Rules, of Spark 4.2: a timer that is not later than the watermark fires in the batch that sets it; the state that
 * a processor reads and writes is that of the key in {@link ImplicitGroupingKeyTracker}.
 */
final class Alarms {
  /** Largest number of silenced keys that a batch remembers; further ones are visited without effect. */
  private static final int MOST_SILENCED = 200_000;

  private final StatefulProcessorHandle handle;
  private final Slices slices;
  private final Row partition;
  private final Function<Row, byte[]> writer;
  private final Function<byte[], Row> reader;
  private final Set<ByteBuffer> silenced = new HashSet<>();
  private boolean begun;
  private boolean rung;
  private boolean unwritten;
  private long watermark;

  Alarms(StatefulProcessorHandle handle, StructType keyType) {
    this.handle = handle;
    this.slices = new Slices(handle);
    this.partition = RowFactory.create(new Object[keyType.size()]);
    this.writer = Expressions.writer(keyType);
    this.reader = Expressions.reader(keyType);
  }

  /** Called before the rows of a batch. */
  void begin(long now) {
    if (begun) {
      return;
    }
    open(now);
    if (slices.timer > now) {
      as(partition, () -> handle.registerTimer(now));
    }
  }

  private void open(long now) {
    begun = true;
    watermark = now;
    as(partition, slices::load);
  }

  void set(Row key, long millis) {
    unwritten = true;
    if (slices.add(millis, writer.apply(key), watermark)) {
      as(partition, slices::spill);
    }
  }

  void silence(Row key) {
    if (silenced.size() < MOST_SILENCED) {
      silenced.add(ByteBuffer.wrap(writer.apply(key)));
    }
  }

  /** The result rows of the keys whose alarms are due, one key after the other; then the alarms are stored. */
  Iterator<Row> ring(long now, Function<Row, Iterator<Row>> look) {
    if (rung) {
      return Collections.emptyIterator();
    }
    rung = true;
    if (!begun) {
      open(now);
    }
    return new Ringing(slices.takeDue(now), look);
  }

  void close() {
    if (unwritten) {
      throw new OperatorFault("INTERNAL", "alarms were set and Spark did not fire their timer");
    }
  }

  private void finish() {
    slices.write();
    long fired = slices.timer <= watermark ? slices.timer : Slices.NONE;
    long next = slices.nextDue();
    if (next != slices.timer) {
      if (slices.timer != Slices.NONE && slices.timer != fired) {
        handle.deleteTimer(slices.timer);
      }
      if (next != Slices.NONE) {
        handle.registerTimer(next);
      }
      slices.timer = next;
    }
    slices.store();
    unwritten = false;
  }

  /** Runs the action on the state of another key. */
  private static void as(Row key, Runnable action) {
    of(key, () -> {
      action.run();
      return null;
    });
  }

  /** The action's result on the state of another key. */
  private static <T> T of(Row key, Supplier<T> action) {
    Object before = ImplicitGroupingKeyTracker.getImplicitKeyOption().get();
    ImplicitGroupingKeyTracker.setImplicitKey(key);
    try {
      return action.get();
    } finally {
      ImplicitGroupingKeyTracker.setImplicitKey(before);
    }
  }

  /** Result rows of the keys whose alarms are due, computed lazily, each with the state of its own key. */
  private final class Ringing implements Iterator<Row> {
    private final Deque<Supplier<ByteBuffer>> taken;
    private final Function<Row, Iterator<Row>> look;
    private ByteBuffer chunk = ByteBuffer.allocate(0);
    private Iterator<Row> rows = Collections.emptyIterator();
    private Row key;
    private boolean finished;

    Ringing(Deque<Supplier<ByteBuffer>> taken, Function<Row, Iterator<Row>> look) {
      this.taken = taken;
      this.look = look;
    }

    @Override
    public boolean hasNext() {
      while (!finished && !hasMore()) {
        if (chunk.hasRemaining()) {
          rows = next(chunk.getLong(), new byte[chunk.getInt()]);
        } else if (!taken.isEmpty()) {
          chunk = taken.poll().get();
        } else {
          finished = true;
          finish();
        }
      }
      return !finished;
    }

    /** Whether the key that has rung last has more rows. */
    private boolean hasMore() {
      return key != null && of(key, rows::hasNext);
    }

    private Iterator<Row> next(long due, byte[] key) {
      chunk.get(key);
      if (due > watermark) {
        if (slices.add(due, key, watermark)) {
          slices.spill();
        }
        return Collections.emptyIterator();
      }
      if (silenced.contains(ByteBuffer.wrap(key))) {
        return Collections.emptyIterator();
      }
      this.key = reader.apply(key);
      return of(this.key, () -> look.apply(this.key));
    }

    @Override
    public Row next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      return of(key, rows::next);
    }
  }
}
