package dsdagster.kafka;

import dsdagster.OperatorFault;
import java.util.ArrayList;
import java.util.List;

/**
 * The transactions of tasks that make up a batch. Once it is in the batch's marker, each of them is committed, by this
 * driver or by the next one.
 *
 * @param generation see {@link TaskTransactions}
 * @param prepared at least one
 */
record Decision(int generation, List<Prepared> prepared) {
  private static final int DIGITS = 36;
  private static final String PART = ".";
  private static final int PARTS = 5;

  /** Compact text: {@code generation;executor.slot.turn.producer.epoch,…}, numbers of producers in base 36. */
  String text() {
    StringBuilder text = new StringBuilder().append(generation).append(';');
    for (Prepared one : prepared) {
      text.append(text.charAt(text.length() - 1) == ';' ? "" : ",").append(one.name()).append(PART);
      text.append(Long.toString(one.producerId(), DIGITS)).append(PART);
      text.append(Integer.toString(one.producerEpoch(), DIGITS));
    }
    return text.toString();
  }

  static Decision of(String text) {
    List<Prepared> found = new ArrayList<>();
    try {
      int end = text.indexOf(';');
      for (String one : text.substring(end + 1).split(",")) {
        String[] parts = one.split("\\.");
        if (parts.length != PARTS) {
          throw new NumberFormatException(one);
        }
        String name = String.join(PART, parts[0], parts[1], parts[2]);
        found.add(new Prepared(name, Long.parseLong(parts[3], DIGITS), Short.parseShort(parts[4], DIGITS), 0));
      }
      return new Decision(Integer.parseInt(text.substring(0, end)), List.copyOf(found));
    } catch (NumberFormatException | StringIndexOutOfBoundsException other) {
      throw new OperatorFault("KAFKA_MARKER_UNREADABLE", "the marker names no transactions: " + text, other);
    }
  }
}
