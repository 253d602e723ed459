package dsdagster.kafka;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.SparkEnv;

/**
 * The producers of one job in this executor, kept from batch to batch: to make one takes several round trips.
 *
 * <p>Rules: transactions stay open until the driver has committed the batch, so a batch needs a slot for each of its
 * tasks with rows. Batches take turns between two halves of the slots: while the last decision may be carried out
 * again, no other transaction can have its ids. A slot is used again only if the driver says that its transaction was
 * decided, else its transaction is aborted: it is of an attempt that was lost. An executor's id is unique in its
 * application, so attempts in different executors never share a slot.
 */
final class Slots {
  private static final ConcurrentHashMap<String, Slots> POOLS = new ConcurrentHashMap<>();
  private static final long IDLE_NANOS = TimeUnit.MINUTES.toNanos(10);

  static {
    ScheduledExecutorService looking =
        Executors.newSingleThreadScheduledExecutor(
            work -> {
              Thread thread = new Thread(work, "ds-kafka-idle");
              thread.setDaemon(true);
              return thread;
            });
    looking.scheduleWithFixedDelay(Slots::leaveIdle, 1, 1, TimeUnit.MINUTES);
  }

  private final int generation;
  private final List<Slot> resting = new ArrayList<>();
  private final List<BitSet> numbers = List.of(new BitSet(), new BitSet());
  private boolean isRetired;

  private Slots(int generation) {
    this.generation = generation;
  }

  /** A slot for one task, after {@code beginTransaction}. */
  static Slot lease(TaskRound settings) {
    Slots slots = POOLS.compute(settings.job(), (job, found) -> current(found, settings.generation()));
    for (Slot slot = slots.take(settings); slot != null; slot = slots.take(settings)) {
      if (slots.settled(slot, settings)) {
        slot.begin();
        return slot;
      }
    }
    Slot made = slots.made(settings);
    made.begin();
    return made;
  }

  private static Slots current(Slots found, int generation) {
    if (found != null && found.generation == generation) {
      return found;
    }
    if (found != null) {
      found.retire();
    }
    return new Slots(generation);
  }

  private synchronized Slot take(TaskRound settings) {
    for (Slot slot : resting) {
      if (slot.turn == settings.turn() && slot.round() < settings.round()) {
        resting.remove(slot);
        return slot;
      }
    }
    return null;
  }

  /** Whether a slot can be used again; if not, it is discarded. */
  private boolean settled(Slot slot, TaskRound settings) {
    Long decided = settings.decided().get(slot.name);
    if (slot.round() == Slot.NONE) {
      return true;
    }
    if (decided != null && decided == slot.round()) {
      try {
        slot.settle();
        return true;
      } catch (KafkaException failure) {
        // fenced or expired: another slot takes its place
      }
    }
    discard(slot);
    return false;
  }

  private Slot made(TaskRound settings) {
    int number = number(settings.turn());
    try {
      return new Slot(settings, SparkEnv.get().executorId().replaceAll("[^A-Za-z0-9_-]", "_"), number);
    } catch (RuntimeException failure) {
      free(settings.turn(), number);
      throw failure;
    }
  }

  private synchronized int number(int turn) {
    int number = numbers.get(turn).nextClearBit(0);
    numbers.get(turn).set(number);
    return number;
  }

  private synchronized void free(int turn, int number) {
    numbers.get(turn).clear(number);
  }

  /** Takes back a slot whose transaction is prepared. */
  static void rest(TaskRound settings, Slot slot) {
    Slots slots = POOLS.get(settings.job());
    if (slots == null || slots.generation != settings.generation() || !slots.kept(slot)) {
      slot.leave();
    }
  }

  private synchronized boolean kept(Slot slot) {
    return !isRetired && resting.add(slot);
  }

  /** Aborts the transaction of an attempt that failed. */
  static void discard(TaskRound settings, Slot slot) {
    Slots slots = POOLS.get(settings.job());
    if (slots != null && slots.generation == settings.generation()) {
      slots.discard(slot);
    } else {
      slot.discard();
    }
  }

  private void discard(Slot slot) {
    slot.discard();
    free(slot.turn, slot.number);
  }

  private synchronized void retire() {
    isRetired = true;
    resting.forEach(Slot::leave);
    resting.clear();
  }

  private static void leaveIdle() {
    long now = System.nanoTime();
    POOLS.values().forEach(slots -> slots.leaveIdle(now));
  }

  private synchronized void leaveIdle(long now) {
    for (Iterator<Slot> slots = resting.iterator(); slots.hasNext(); ) {
      Slot slot = slots.next();
      if (now - slot.usedNanos() > IDLE_NANOS) {
        slots.remove();
        slot.leave();
        free(slot.turn, slot.number);
      }
    }
  }
}
