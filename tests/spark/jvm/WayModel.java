package dsdagster.match;

import dsdagster.state.Buckets;
import dsdagster.state.TimedRow;
import dsdagster.state.TimedRows;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;

/** Random paths through random automata, compared with a plain list of steps: {@code WayModel FIRST_SEED COUNT}. */
public final class WayModel {
  private static final int STEPS = 3_000;
  private static final int VARIABLES = 3;
  private static final String[] LIMITS = {"40", "400", "2000", "32768"};

  private final Random dice;
  private final Map<Object, Object> store = new HashMap<>();
  private final Buckets buckets;
  private final boolean isChunked;
  private final int[][] automaton;
  private final int[] kept = new int[VARIABLES];
  private final Way.Carrier carrier;
  private final List<Integer> states = new ArrayList<>(List.of(0));
  private final List<Integer> choices = new ArrayList<>();
  private final List<List<Integer>> places = new ArrayList<>();
  private TimedRows chunks;
  private Way way;

  private WayModel(long seed) {
    dice = new Random(seed);
    System.setProperty("ds.state.bucket.bytes", LIMITS[dice.nextInt(LIMITS.length)]);
    buckets = new Buckets(handle());
    isChunked = dice.nextInt(4) > 0;
    chunks = isChunked ? new TimedRows(buckets, 3, TimedRow.BY_TIME) : null;
    automaton = new int[1 + dice.nextInt(4)][];
    for (int i = 0; i < automaton.length; i++) {
      automaton[i] = new int[2 * (1 + dice.nextInt(3))];
      for (int k = 0; k < automaton[i].length; k += 2) {
        automaton[i][k] = dice.nextInt(VARIABLES);
        automaton[i][k + 1] = dice.nextBoolean() ? i : dice.nextInt(automaton.length);
      }
    }
    for (int i = 0; i < VARIABLES; i++) {
      kept[i] = dice.nextInt(4);
      places.add(new ArrayList<>());
    }
    carrier = dice.nextBoolean() ? null : new Sums();
    begin(new byte[0]);
  }

  public static void main(String[] arguments) {
    long first = Long.parseLong(arguments[0]);
    for (long seed = first; seed < first + Integer.parseInt(arguments[1]); seed++) {
      try {
        new WayModel(seed).run();
      } catch (RuntimeException failure) {
        throw new IllegalStateException("seed " + seed, failure);
      }
    }
    System.out.println("equal");
  }

  /** Number of the rows and sum of place times variable. */
  private static final class Sums implements Way.Carrier {
    @Override
    public Object[] after(Object[] before, int place, int variable) {
      long sum = before == null ? 0 : (Long) before[0];
      return new Object[] {sum + (long) place * variable + 1};
    }

    @Override
    public byte[] pack(Object[] carried) {
      return carried == null ? null : ByteBuffer.allocate(Long.BYTES).putLong((Long) carried[0]).array();
    }

    @Override
    public Object[] unpack(byte[] packed) {
      return new Object[] {ByteBuffer.wrap(packed).getLong()};
    }
  }

  private void begin(byte[] written) {
    way = new Way(automaton, kept, kept, carrier);
    way.begin(written, chunks);
  }

  private void run() {
    boolean isGrowing = true;
    for (int step = 0; step < STEPS; step++) {
      int of = dice.nextInt(200);
      if (of == 0) {
        isGrowing = !isGrowing;
      } else if (of == 1) {
        storeAndRead();
      } else if (of == 2) {
        compareAll();
      } else if (dice.nextInt(4) == 0 == isGrowing && !choices.isEmpty()) {
        pop();
      } else {
        push();
      }
      compare();
    }
    compareAll();
    begin(new byte[0]);
    expect(way.length() == 0 && (!isChunked || chunks.isEmpty()), "a new way is empty");
  }

  private void push() {
    int[] steps = automaton[states.get(choices.size())];
    int choice = choices.isEmpty() || dice.nextBoolean() ? dice.nextInt(steps.length / 2) : 0;
    way.push(choice);
    places.get(steps[2 * choice]).add(choices.size());
    states.add(steps[2 * choice + 1]);
    choices.add(choice);
  }

  private void pop() {
    int last = choices.size() - 1;
    expect(way.pop() == choices.remove(last), "step that is given back");
    states.remove(last + 1);
    for (List<Integer> rows : places) {
      rows.remove((Object) last);
    }
  }

  /** Stores and reads the path, as between two batches. */
  private void storeAndRead() {
    byte[] written = way.written();
    if (isChunked) {
      ByteBuffer out = ByteBuffer.allocate((int) chunks.encodedSize());
      chunks.put(out);
      chunks = TimedRows.get(out.flip(), buckets, 3, TimedRow.BY_TIME);
    }
    begin(written);
  }

  private void compare() {
    expect(way.length() == choices.size(), "length");
    expect(way.state() == states.get(choices.size()), "state");
    for (int variable = 0; variable < VARIABLES; variable++) {
      List<Integer> rows = places.get(variable);
      expect(way.count(variable) == rows.size(), "count");
      for (int number = 0; number < Math.min(kept[variable], rows.size()); number++) {
        expect(way.first(variable, number) == rows.get(number), "first rows");
        expect(way.last(variable, number) == rows.get(rows.size() - 1 - number), "last rows");
      }
    }
  }

  private void compareAll() {
    List<Integer> variables = new ArrayList<>();
    way.read(
        (variable, first, count) -> {
          expect(first == variables.size(), "rows follow each other");
          for (int i = 0; i < count; i++) {
            variables.add(variable);
          }
        });
    Object[] carried = null;
    for (int i = 0; i < choices.size(); i++) {
      int variable = automaton[states.get(i)][2 * choices.get(i)];
      expect(variables.get(i) == variable, "variable of a row");
      carried = carrier == null ? null : carrier.after(carried, i, variable);
    }
    expect(variables.size() == choices.size(), "all rows are read");
    if (carried != null) {
      expect(way.carried()[0].equals(carried[0]), "what is carried");
    }
  }

  private StatefulProcessorHandle handle() {
    Object state = proxy(MapState.class, (name, values) -> switch (name) {
      case "getValue" -> store.get(values[0]);
      case "updateValue" -> {
        store.put(values[0], values[1]);
        yield null;
      }
      default -> {
        store.remove(values[0]);
        yield null;
      }
    });
    return (StatefulProcessorHandle) proxy(StatefulProcessorHandle.class, (name, values) -> state);
  }

  private interface Answer {
    Object give(String name, Object[] values);
  }

  private static Object proxy(Class<?> type, Answer answer) {
    ClassLoader loader = WayModel.class.getClassLoader();
    return Proxy.newProxyInstance(loader, new Class<?>[] {type}, (self, method, values) -> answer.give(method.getName(), values));
  }

  private static void expect(boolean holds, String what) {
    if (!holds) {
      throw new IllegalStateException(what);
    }
  }
}
