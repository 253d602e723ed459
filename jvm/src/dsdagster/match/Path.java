package dsdagster.match;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The rows a search has taken so far, with the variable each is mapped to, and what they give. Grows and shrinks by one
 * row.
 */
final class Path {
  private final List<Value> values;
  private final DataType[] types;
  private final Aggregate[] aggregates;
  private final boolean[] isKept;
  private final int[][] places;
  private final int[] counts;
  private final Object[][] states;
  private MatchRows rows;
  private long start;
  private int length;
  private int[] mapped = new int[16];

  Path(MatchSettings settings, StructType row) {
    values = settings.values();
    types = new DataType[row.size()];
    for (int i = 0; i < types.length; i++) {
      types[i] = row.fields()[i].dataType();
    }
    aggregates = new Aggregate[values.size()];
    isKept = new boolean[values.size()];
    states = new Object[values.size()][];
    for (int i = 0; i < aggregates.length; i++) {
      Value value = values.get(i);
      if (value.isAggregate()) {
        aggregates[i] = new Aggregate(value, value.field() < 0 ? value.type() : types[value.field()]);
        isKept[i] = value.isTested();
        states[i] = new Object[17];
      }
    }
    int variables = settings.tests().size();
    places = new int[variables][8];
    counts = new int[variables];
  }

  /** Starts over. */
  void begin(MatchRows known, long first) {
    rows = known;
    start = first;
    length = 0;
    Arrays.fill(counts, 0);
  }

  int length() {
    return length;
  }

  /** Number of the row that comes next. */
  long next() {
    return start + length;
  }

  MatchRow row(int position) {
    return rows.get(start + position);
  }

  UnsafeRow fields(int position) {
    return row(position).fields(types.length);
  }

  /** Takes the next row as one of a variable. */
  void push(int variable) {
    if (length == mapped.length) {
      mapped = Arrays.copyOf(mapped, 2 * length);
      for (int i = 0; i < states.length; i++) {
        states[i] = states[i] == null ? null : Arrays.copyOf(states[i], 2 * length + 1);
      }
    }
    mapped[length] = variable;
    if (counts[variable] == places[variable].length) {
      places[variable] = Arrays.copyOf(places[variable], 2 * counts[variable]);
    }
    places[variable][counts[variable]++] = length;
    for (int i = 0; i < isKept.length; i++) {
      if (isKept[i]) {
        states[i][length + 1] = advanced(i, states[i][length]);
      }
    }
    length++;
  }

  /** Gives the last row back. */
  void pop() {
    length--;
    counts[mapped[length]]--;
  }

  /** The state of an aggregate after the row at {@code length}. */
  private Object advanced(int index, Object before) {
    Value value = values.get(index);
    if (!value.takes(mapped[length])) {
      return before;
    }
    return aggregates[index].add(before, value.field() < 0 ? Boolean.TRUE : field(length, value.field()));
  }

  private Object field(int position, int field) {
    UnsafeRow fields = fields(position);
    return fields.isNullAt(field) ? null : fields.get(field, types[field]);
  }

  /** Place in the match of the first or last row of a variable; negative without one. */
  int first(int variable) {
    return counts[variable] == 0 ? -1 : places[variable][0];
  }

  int last(int variable) {
    return counts[variable] == 0 ? -1 : places[variable][counts[variable] - 1];
  }

  /** The value for the rows of the path. */
  Object value(int index) {
    Value value = values.get(index);
    return switch (value.function()) {
      case ROWTIME -> row(length - 1).ts;
      case FIRST -> at(value, value.offset());
      case LAST -> at(value, count(value) - 1 - value.offset());
      default -> aggregate(index);
    };
  }

  private int count(Value value) {
    return value.variable() == Value.ALL ? length : counts[value.variable()];
  }

  private Object at(Value value, int number) {
    if (number < 0 || number >= count(value)) {
      return null;
    }
    return field(value.variable() == Value.ALL ? number : places[value.variable()][number], value.field());
  }

  private Object aggregate(int index) {
    if (isKept[index]) {
      return aggregates[index].result(states[index][length]);
    }
    Value value = values.get(index);
    Object state = null;
    for (int number = 0; number < count(value); number++) {
      state = aggregates[index].add(state, value.field() < 0 ? Boolean.TRUE : at(value, number));
    }
    return aggregates[index].result(state);
  }
}
