import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;

/** Random operations on rows in buckets, compared with a plain sorted list: {@code TimedRowsModel FIRST_SEED COUNT}. */
public final class TimedRowsModel {
  private static final int VISITS = 60;
  private static final List<Integer> LIMITS = List.of(40, 150, 400, 2_000, 32_768);
  private static final List<Comparator<TimedRow>> ORDERS =
      List.of(TimedRow.BY_TIME, TimedRow.BY_ORDER, TimedRow.BY_PAYLOAD);

  private final Random dice;
  private final Map<Long, byte[]> store = new HashMap<>();
  private final Comparator<TimedRow> order;
  private final Buckets buckets;
  private final int list;
  private final int times;
  private final int most;
  private final List<TimedRow> model = new ArrayList<>();
  private TimedRows rows;
  private long now;

  private TimedRowsModel(long seed) {
    dice = new Random(seed);
    System.setProperty("ds.state.bucket.bytes", String.valueOf(LIMITS.get(dice.nextInt(LIMITS.size()))));
    order = ORDERS.get(dice.nextInt(ORDERS.size()));
    list = dice.nextInt(100);
    times = dice.nextBoolean() ? 5 : 2_000;
    most = 1 + dice.nextInt(40);
    buckets = new Buckets(handle());
    rows = new TimedRows(buckets, list, order);
  }

  public static void main(String[] arguments) {
    long first = Long.parseLong(arguments[0]);
    for (long seed = first; seed < first + Integer.parseInt(arguments[1]); seed++) {
      try {
        new TimedRowsModel(seed).run();
      } catch (RuntimeException failure) {
        throw new IllegalStateException("seed " + seed, failure);
      }
    }
    System.out.println("equal");
  }

  private StatefulProcessorHandle handle() {
    Object state = proxy(MapState.class, (name, values) -> switch (name) {
      case "getValue" -> store.get(values[0]);
      case "updateValue" -> {
        store.put((Long) values[0], (byte[]) values[1]);
        yield null;
      }
      case "removeKey" -> {
        expect(store.remove(values[0]) != null, "a bucket is removed that is there");
        yield null;
      }
      default -> throw new IllegalStateException(name);
    });
    return (StatefulProcessorHandle) proxy(StatefulProcessorHandle.class, (name, values) -> state);
  }

  private interface Answer {
    Object give(String name, Object[] values);
  }

  private static Object proxy(Class<?> type, Answer answer) {
    ClassLoader loader = TimedRowsModel.class.getClassLoader();
    return Proxy.newProxyInstance(loader, new Class<?>[] {type}, (self, method, values) -> answer.give(method.getName(), values));
  }

  private void run() {
    for (int visit = 0; visit < VISITS; visit++) {
      int kind = dice.nextInt(8);
      for (int left = dice.nextInt(most * (kind == 0 ? 20 : 1) + 1); left > 0; left--) {
        add();
      }
      act(kind);
      check();
      if (dice.nextInt(3) > 0) {
        writeAndRead();
        check();
      }
    }
    rows.clear();
    rows.encodedSize();
    expect(store.isEmpty(), "nothing is left in the store");
  }

  private void add() {
    byte[] first = new byte[1 + dice.nextInt(3)];
    byte[] second = new byte[dice.nextInt(30)];
    dice.nextBytes(first);
    dice.nextBytes(second);
    TimedRow row = new TimedRow(now + dice.nextInt(times), first, second);
    rows.add(row);
    int at = 0;
    while (at < model.size() && order.compare(model.get(at), row) <= 0) {
      at++;
    }
    model.add(at, row);
  }

  private void act(int kind) {
    switch (kind) {
      case 1 -> {
        now += times / 4;
        Iterator<TimedRow> taken = rows.takeUntil(now);
        taken.forEachRemaining(row -> same(row, model.remove(0)));
        expect(model.isEmpty() || model.get(0).ts() > now, "all are taken");
      }
      case 2 -> {
        int count = dice.nextInt(model.size() + 1);
        rows.removeFirst(count);
        model.subList(0, count).clear();
      }
      case 3 -> {
        for (int left = Math.min(model.size(), dice.nextInt(50)); left > 0; left--) {
          same(rows.removeLast(), model.remove(model.size() - 1));
        }
      }
      case 4 -> {
        for (int left = Math.min(model.size(), dice.nextInt(50)); left > 0; left--) {
          same(rows.removeFirst(), model.remove(0));
        }
      }
      case 5 -> replaceLastUntil(now + dice.nextInt(times));
      case 6 -> between(now + dice.nextInt(times), now + 2L * dice.nextInt(times));
      default -> { }
    }
  }

  private void replaceLastUntil(long ts) {
    for (int i = model.size() - 1; i >= 0; i--) {
      if (model.get(i).ts() == ts && (i + 1 == model.size() || model.get(i + 1).ts() > ts)) {
        TimedRow row = new TimedRow(ts, model.get(i).order(), model.get(i).payload().clone());
        rows.replaceLastUntil(row);
        model.set(i, row);
      }
    }
  }

  private void between(long from, long until) {
    TimedRows.Cursor found = rows.between(from, until);
    for (int i = 0; i < model.size(); i++) {
      TimedRow row = model.get(i);
      if (row.ts() >= from && row.ts() <= until) {
        same(found.next(), row);
        if (dice.nextInt(4) == 0) {
          found.remove();
          model.remove(i--);
        } else if (order == TimedRow.BY_TIME && dice.nextInt(3) == 0) {
          model.set(i, new TimedRow(row.ts(), new byte[0], row.payload()));
          found.replace(model.get(i));
        }
      }
    }
    expect(!found.hasNext(), "no row behind the last");
  }

  private void writeAndRead() {
    ByteBuffer out = ByteBuffer.allocate((int) rows.encodedSize());
    rows.put(out);
    expect(!out.hasRemaining(), "the size is what is written");
    rows = TimedRows.get(ByteBuffer.wrap(out.array()), buckets, list, order);
    expect(!rows.isShort() || store.isEmpty(), "a short list has no buckets");
  }

  private void check() {
    expect(rows.size() == model.size() && rows.isEmpty() == model.isEmpty(), "size");
    TimedRows.Cursor all = rows.between(Long.MIN_VALUE, Long.MAX_VALUE);
    model.forEach(row -> same(all.next(), row));
    expect(!all.hasNext(), "no more rows");
    if (model.isEmpty()) {
      expect(rows.first() == null && rows.last() == null && rows.firstTime() == TimedRows.NO_TIME, "nothing");
      return;
    }
    same(rows.first(), model.get(0));
    same(rows.last(), model.get(model.size() - 1));
    expect(rows.firstTime() == model.get(0).ts(), "first time");
    int index = dice.nextInt(model.size());
    same(rows.get(index), model.get(index));
    long ts = now + dice.nextInt(times);
    expect(rows.countBefore(ts) == model.stream().filter(row -> row.ts() < ts).count(), "count before");
    TimedRow last = model.stream().filter(row -> row.ts() <= ts).reduce((one, next) -> next).orElse(null);
    TimedRow found = rows.lastUntil(ts);
    expect((found == null) == (last == null), "last until");
    if (last != null) {
      same(found, last);
    }
  }

  private static void same(TimedRow found, TimedRow expected) {
    boolean isSame = found.ts() == expected.ts()
        && Arrays.equals(found.order(), expected.order())
        && Arrays.equals(found.payload(), expected.payload());
    expect(isSame, "rows are the same");
  }

  private static void expect(boolean holds, String what) {
    if (!holds) {
      throw new IllegalStateException(what);
    }
  }
}
