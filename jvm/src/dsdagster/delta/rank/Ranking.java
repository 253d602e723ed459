package dsdagster.delta.rank;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.OperatorFault;
import dsdagster.delta.Values;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import org.apache.spark.sql.Row;

/**
 * The order of a partition's rows, their ranks, and the limit of ranks.
 *
 * <p>Rule: rows that are equal in ORDER BY are ordered by their bytes, so that ranks do not depend on the order of
 * arrival.
 */
public final class Ranking implements Comparator<Candidate>, Serializable {
  private static final long serialVersionUID = 1L;

  /** ROW_NUMBER: the row's place; RANK: the place of the first equal row; DENSE_RANK: counts different values. */
  enum Function {
    ROW_NUMBER,
    RANK,
    DENSE_RANK
  }

  /** One term of ORDER BY. */
  public record Term(boolean descending, boolean nullsFirst) implements Serializable {}

  /** A row within the limit, its rank, and the number of its copies with that rank. */
  record Shown(Candidate candidate, long rank, long copies) {}

  private final Function function;
  private final long limit;
  private final ArrayList<Term> terms;

  Ranking(Function function, long limit, List<Term> terms) {
    this.function = function;
    this.limit = limit;
    this.terms = new ArrayList<>(terms);
  }

  /** From {@code {"function", "limit", "order": [{"descending", "nulls_first"}]}}. */
  static Ranking read(String json) {
    try {
      JsonNode node = new ObjectMapper().readTree(json);
      List<Term> terms = new ArrayList<>();
      for (JsonNode term : node.get("order")) {
        terms.add(new Term(term.get("descending").asBoolean(), term.get("nulls_first").asBoolean()));
      }
      return new Ranking(Function.valueOf(node.get("function").asText()), node.get("limit").asLong(), terms);
    } catch (JsonProcessingException failure) {
      throw new OperatorFault("OPERATOR_SETTINGS", "a ranking is not JSON", failure);
    }
  }

  int terms() {
    return terms.size();
  }

  List<Term> order() {
    return terms;
  }

  /** Largest number of different rows that a partition emits, unless rows are equal. */
  long limit() {
    return limit;
  }

  @Override
  public int compare(Candidate left, Candidate right) {
    int order = byOrder(left.order(), right.order());
    return order != 0 ? order : Arrays.compareUnsigned(left.row(), right.row());
  }

  private int byOrder(Row left, Row right) {
    for (int i = 0; i < terms.size(); i++) {
      Term term = terms.get(i);
      Object ours = left.get(i);
      Object theirs = right.get(i);
      int order;
      if (ours == null || theirs == null) {
        order = ours == theirs ? 0 : (ours == null) == term.nullsFirst() ? -1 : 1;
      } else {
        order = term.descending() ? Values.compare(theirs, ours) : Values.compare(ours, theirs);
      }
      if (order != 0) {
        return order;
      }
    }
    return 0;
  }

  /** The rows within the limit, in order. */
  List<Shown> shown(SortedMap<Candidate, Long> rows) {
    List<Shown> found = new ArrayList<>();
    number(rows, found);
    return found;
  }

  /** Whether a row after all of these is beyond the limit. */
  boolean isFull(SortedMap<Candidate, Long> rows) {
    return number(rows, new ArrayList<>());
  }

  private boolean number(SortedMap<Candidate, Long> rows, List<Shown> found) {
    long place = 1;
    long rank = 0;
    Candidate previous = null;
    for (Map.Entry<Candidate, Long> row : rows.entrySet()) {
      Candidate candidate = row.getKey();
      boolean isTie = previous != null && byOrder(previous.order(), candidate.order()) == 0;
      if (!isTie) {
        rank = function == Function.DENSE_RANK ? rank + 1 : place;
      }
      if ((function == Function.ROW_NUMBER ? place : rank) > limit) {
        return true;
      }
      if (function == Function.ROW_NUMBER) {
        for (long i = place; i < place + row.getValue() && i <= limit; i++) {
          found.add(new Shown(candidate, i, 1));
        }
      } else {
        found.add(new Shown(candidate, rank, row.getValue()));
      }
      place += row.getValue();
      previous = candidate;
    }
    return function == Function.ROW_NUMBER && place > limit;
  }
}
