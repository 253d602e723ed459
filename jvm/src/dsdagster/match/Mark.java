package dsdagster.match;

import dsdagster.Layout;
import java.nio.ByteBuffer;

/**
 * Summary of the rows before a place of a search's path, so that the search can continue from there without them.
 *
 * @param state state of the automaton
 * @param length number of the rows
 * @param counts number of rows by variable
 * @param firsts by variable, places of its first rows: as many as are used, at most as many as there are
 * @param lasts by variable, places of its last rows, the last one first
 * @param carried packed states of the aggregates that conditions use; null if there are none
 */
record Mark(int state, int length, int[] counts, int[][] firsts, int[][] lasts, byte[] carried) {
  /** Before the first row. */
  static Mark start(int variables) {
    return new Mark(0, 0, new int[variables], new int[variables][0], new int[variables][0], null);
  }

  static Mark get(ByteBuffer in) {
    int state = in.getInt();
    int length = in.getInt();
    int[] counts = numbers(in);
    int[][] firsts = new int[counts.length][];
    int[][] lasts = new int[counts.length][];
    for (int i = 0; i < counts.length; i++) {
      firsts[i] = numbers(in);
      lasts[i] = numbers(in);
    }
    return new Mark(state, length, counts, firsts, lasts, Layout.get(in));
  }

  int size() {
    int numbers = 3 + counts.length;
    for (int i = 0; i < counts.length; i++) {
      numbers += 2 + firsts[i].length + lasts[i].length;
    }
    return numbers * Integer.BYTES + (int) Layout.size(carried);
  }

  void put(ByteBuffer out) {
    out.putInt(state).putInt(length);
    put(out, counts);
    for (int i = 0; i < counts.length; i++) {
      put(out, firsts[i]);
      put(out, lasts[i]);
    }
    Layout.put(out, carried);
  }

  private static int[] numbers(ByteBuffer in) {
    int[] numbers = new int[in.getInt()];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = in.getInt();
    }
    return numbers;
  }

  private static void put(ByteBuffer out, int[] numbers) {
    out.putInt(numbers.length);
    for (int number : numbers) {
      out.putInt(number);
    }
  }
}
