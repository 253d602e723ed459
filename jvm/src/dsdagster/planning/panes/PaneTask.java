package dsdagster.planning.panes;

import java.io.Serializable;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreSaveExec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.util.TaskCompletionListener;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/**
 * The work of {@link PaneStep} on one partition.
 *
 * <p>Rules, of Spark 4.2: the time until which windows have ended is, in the next batch, the time until which rows are
 * late, also after a restart. So a window is emitted once, in the batch in which time passes its end.
 */
final class PaneTask extends AbstractFunction2<StateStore, Iterator<InternalRow>, Iterator<InternalRow>>
    implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final long MICROS = 1_000;

  private final StateStoreSaveExec step;
  private final PaneWindows windows;
  private final int pane;
  private final long lateUntil;
  private final long endedUntil;

  /** {@code pane}: index of the pane's column in the rows. */
  PaneTask(StateStoreSaveExec step, PaneWindows windows, int pane) {
    this.step = step;
    this.windows = windows;
    this.pane = pane;
    this.lateUntil = micros(step.eventTimeWatermarkForLateEvents());
    this.endedUntil = micros(step.eventTimeWatermarkForEviction());
  }

  private static long micros(Option<Object> watermark) {
    if (watermark.isEmpty()) {
      throw new IllegalStateException("windows of rows without a watermark");
    }
    return (Long) watermark.get() * MICROS;
  }

  @Override
  public Iterator<InternalRow> apply(StateStore store, Iterator<InternalRow> rows) {
    TaskContext.get()
        .addTaskCompletionListener(
            (TaskCompletionListener)
                ended -> {
                  if (!store.hasCommitted()) {
                    store.abort();
                  }
                });
    long begin = System.nanoTime();
    keep(store, rows);
    add("allUpdatesTimeMs", millisSince(begin));
    return new Ended(store);
  }

  private void keep(StateStore store, Iterator<InternalRow> rows) {
    SQLMetric updated = step.longMetric("numUpdatedStateRows");
    SQLMetric late = step.longMetric("numRowsDroppedByWatermark");
    while (rows.hasNext()) {
      UnsafeRow row = (UnsafeRow) rows.next();
      long begin = row.getLong(pane);
      late.add(windows.endedAt(begin, lateUntil));
      if (windows.lastEnd(begin) > lateUntil) {
        step.stateManager().put(store, row);
        updated.add(1);
      }
    }
  }

  private void add(String metric, long value) {
    step.longMetric(metric).add(value);
  }

  private static long millisSince(long nanos) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos);
  }

  /** The panes of windows that have ended; behind the last one the batch is committed. */
  private final class Ended extends AbstractIterator<InternalRow> {
    private final StateStore store;
    private final long begin = System.nanoTime();
    private final SQLMetric emitted = step.longMetric("numOutputRows");
    private final SQLMetric removed = step.longMetric("numRemovedStateRows");
    private Iterator<UnsafeRowPair> groups;
    private UnsafeRow row;
    private long end;
    private long last;

    Ended(StateStore store) {
      this.store = store;
      this.groups =
          windows.endsBetween(lateUntil, endedUntil) ? step.stateManager().iterator(store) : Iterator.empty();
    }

    @Override
    public boolean hasNext() {
      while (row == null || end > last) {
        if (!groups.hasNext()) {
          commit();
          return false;
        }
        take(groups.next());
      }
      return true;
    }

    /** The next group, which stays in the store until its last window has ended. */
    private void take(UnsafeRowPair group) {
      row = group.value();
      long start = row.getLong(pane);
      last = Math.min(windows.lastEnd(start), endedUntil);
      end = windows.firstEndAfter(start, lateUntil);
      if (windows.lastEnd(start) <= endedUntil) {
        step.stateManager().remove(store, group.key());
        removed.add(1);
      }
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new java.util.NoSuchElementException();
      }
      row.setLong(pane, end);
      end += windows.step();
      emitted.add(1);
      return row;
    }

    private void commit() {
      if (store.hasCommitted()) {
        return;
      }
      groups = Iterator.empty();
      add("allRemovalsTimeMs", millisSince(begin)); // with the time of the steps above, as in Spark's own step
      long committing = System.nanoTime();
      step.stateManager().commit(store);
      add("commitTimeMs", millisSince(committing));
      step.setStoreMetrics(store, true);
      step.setOperatorMetrics(1);
    }
  }
}
