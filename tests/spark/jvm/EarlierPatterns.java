package dsdagster.match;

import dsdagster.Layout;
import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;

/** State of patterns in layouts of earlier versions is read, and written in the present layout. */
public final class EarlierPatterns {
  private static final int ROWS = 50;
  private static final short[][] WAYS = {{0, 1, 1, 1, 1, 1, 1, 1, 1, 0}, {2, 0, 1}, {}};
  /** One state, to which three steps lead back. */
  private static final int[][] STEPS = {{0, 0, 0, 0, 0, 0}};

  private EarlierPatterns() {}

  public static void main(String[] arguments) {
    for (byte layout = 1; layout <= 2; layout++) {
      for (String limit : new String[] {"40", "150", "32768"}) {
        System.setProperty("ds.state.bucket.bytes", limit);
        Map<Object, Object> store = new HashMap<>();
        Buckets buckets = new Buckets(handle(store));
        KeyState read = KeyState.decode(written(layout), buckets, TimedRow.BY_ORDER);
        check(read);
        KeyState again = KeyState.decode(read.encode(), buckets, TimedRow.BY_ORDER);
        check(again);
        again = KeyState.decode(withoutChunks(again.encode()), buckets, TimedRow.BY_ORDER);
        check(again);
        again.forget();
        again.encode();
        expect(store.isEmpty(), "nothing is left in the store");
      }
    }
    System.out.println("equal");
  }

  private static byte[] written(byte layout) {
    ByteBuffer out = ByteBuffer.allocate(10_000).put(layout).putLong(77).putInt(0).putInt(ROWS);
    for (int i = 0; i < ROWS; i++) {
      Layout.put(out.putLong(1_000 + i), payload(i));
    }
    out.putInt(WAYS.length);
    for (int i = 0; i < WAYS.length; i++) {
      out.putInt(20 * i).putInt(WAYS[i].length);
      for (short choice : WAYS[i]) {
        out.putShort(choice);
      }
    }
    return Arrays.copyOf(out.array(), out.position());
  }

  /** The third layout, without the last list, which is empty here. */
  private static byte[] withoutChunks(byte[] state) {
    byte[] earlier = Arrays.copyOf(state, state.length - Integer.BYTES);
    earlier[0] = 3;
    return earlier;
  }

  private static byte[] payload(int row) {
    return new byte[] {(byte) row, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  }

  private static void check(KeyState state) {
    expect(state.alarm == 77 && state.waiting.isEmpty(), "alarm");
    expect(state.rows.first() == 0 && state.rows.end() == ROWS, "numbers of rows");
    for (int i = 0; i < ROWS; i++) {
      expect(state.rows.get(i).ts == 1_000 + i && state.rows.get(i).fields(1).getSizeInBytes() == 16, "row");
    }
    expect(Arrays.equals(state.rows.list().last().payload(), payload(ROWS - 1)), "bytes of a row");
    TimedRows.Cursor searches = state.searches.between(0, ROWS);
    for (int i = 0; i < WAYS.length; i++) {
      TimedRow search = searches.next();
      expect(search.ts() == 20 * i, "begin of a search");
      Way way = new Way(STEPS, new int[1], new int[1], null);
      way.begin(search.payload(), null);
      expect(way.length() == WAYS[i].length, "length of a way");
      for (int left = WAYS[i].length; left > 0; left--) {
        expect(way.pop() == WAYS[i][left - 1], "step of a way");
      }
    }
    expect(!searches.hasNext(), "no more searches");
  }

  private static StatefulProcessorHandle handle(Map<Object, Object> store) {
    ClassLoader loader = EarlierPatterns.class.getClassLoader();
    Object state = Proxy.newProxyInstance(loader, new Class<?>[] {MapState.class}, (self, method, values) -> {
      return switch (method.getName()) {
        case "getValue" -> store.get(values[0]);
        case "updateValue" -> {
          store.put(values[0], values[1]);
          yield null;
        }
        default -> {
          store.remove(values[0]);
          yield null;
        }
      };
    });
    return (StatefulProcessorHandle)
        Proxy.newProxyInstance(loader, new Class<?>[] {StatefulProcessorHandle.class}, (self, method, values) -> state);
  }

  private static void expect(boolean holds, String what) {
    if (!holds) {
      throw new IllegalStateException(what);
    }
  }
}
