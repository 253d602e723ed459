package dsdagster.match;

import dsdagster.state.TimedRows;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The rows that a search has taken so far, the variable of each, and the values over them. Grows and shrinks by one
 * row.
 */
final class Path {
  private final List<Value> values;
  private final DataType[] types;
  private final Aggregate[] aggregates;
  private final Carried carried;
  private final Way way;
  private MatchRows rows;
  private long start;

  Path(MatchSettings settings, StructType row) {
    values = settings.values();
    types = new DataType[row.size()];
    for (int i = 0; i < types.length; i++) {
      types[i] = row.fields()[i].dataType();
    }
    aggregates = new Aggregate[values.size()];
    for (int i = 0; i < aggregates.length; i++) {
      Value value = values.get(i);
      if (value.isAggregate()) {
        aggregates[i] = new Aggregate(value, value.field() < 0 ? value.type() : types[value.field()]);
      }
    }
    carried = Carried.of(values, aggregates, this::field);
    way = new Way(settings.steps(), settings.kept(Value.Function.FIRST), settings.kept(Value.Function.LAST), carried);
  }

  /** Continues a search; {@code written} and {@code chunks} as for {@link Way#begin}. */
  void begin(MatchRows known, long first, byte[] written, TimedRows chunks) {
    rows = known;
    start = first;
    way.begin(written, chunks);
  }

  /** The path as bytes, from which {@link #begin} continues. */
  byte[] written() {
    return way.written();
  }

  /** State of the automaton. */
  int state() {
    return way.state();
  }

  int length() {
    return way.length();
  }

  /** Number of the next row. */
  long next() {
    return start + way.length();
  }

  private MatchRow row(int position) {
    return rows.get(start + position);
  }

  /** Time of the last row. */
  long time() {
    return row(way.length() - 1).ts;
  }

  /** The fields of the last row. */
  UnsafeRow fields() {
    return row(way.length() - 1).fields(types.length);
  }

  /** Takes the next row by a step of the state. */
  void push(int choice) {
    way.push(choice);
  }

  /** Removes the last row; returns the step by which it was taken. */
  int pop() {
    return way.pop();
  }

  private Object field(int position, int field) {
    UnsafeRow fields = row(position).fields(types.length);
    return fields.isNullAt(field) ? null : fields.get(field, types[field]);
  }

  /** Place in the match of the first row of a variable; negative if it has no rows. */
  int first(int variable) {
    return way.count(variable) == 0 ? -1 : way.first(variable, 0);
  }

  int last(int variable) {
    return way.count(variable) == 0 ? -1 : way.last(variable, 0);
  }

  /** The value for the rows of the path. */
  Object value(int index) {
    Value value = values.get(index);
    return switch (value.function()) {
      case ROWTIME -> time();
      case FIRST, LAST -> at(value);
      default -> aggregates[index].result(aggregated(index));
    };
  }

  private Object at(Value value) {
    boolean isAll = value.variable() == Value.ALL;
    if (value.offset() >= (isAll ? way.length() : way.count(value.variable()))) {
      return null;
    }
    if (value.function() == Value.Function.FIRST) {
      return field(isAll ? value.offset() : way.first(value.variable(), value.offset()), value.field());
    }
    int last = way.length() - 1 - value.offset();
    return field(isAll ? last : way.last(value.variable(), value.offset()), value.field());
  }

  private Object aggregated(int index) {
    if (carried != null && carried.has(index)) {
      return carried.state(way.carried(), index);
    }
    Value value = values.get(index);
    Object[] state = new Object[1];
    way.read(
        (variable, first, count) -> {
          for (int place = first; value.takes(variable) && place < first + count; place++) {
            state[0] = aggregates[index].add(state[0], value.field() < 0 ? Boolean.TRUE : field(place, value.field()));
          }
        });
    return state[0];
  }
}
