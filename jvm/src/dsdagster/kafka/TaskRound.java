package dsdagster.kafka;

import java.io.Serializable;
import java.util.HashMap;

/**
 * What tasks of one batch need to write to the broker themselves. It holds the client's options, and with them a
 * password, as Spark's own Kafka sink sends it to its tasks.
 *
 * @param columns parts of the records
 * @param kafka client options
 * @param job transactional id of the job
 * @param generation see {@link TaskTransactions}
 * @param round number of the decision that this batch will make, from 0 in each generation
 * @param decided name of a transaction → the last round in which it was decided
 * @param timeoutMillis how long the broker keeps a transaction open
 * @param written the last batch in the topic: a batch up to it is computed only for its state, or refused by the
 *     driver
 * @param millis timestamp of records that have none; one for all records of a batch
 */
record TaskRound(
    RecordColumns columns,
    HashMap<String, Object> kafka,
    String job,
    int generation,
    long round,
    HashMap<String, Long> decided,
    int timeoutMillis,
    long written,
    long millis)
    implements Serializable {
  private static final int TURNS = 2;

  /** The half of the slots that this round uses. */
  int turn() {
    return (int) (round % TURNS);
  }

  @Override
  public String toString() {
    return "round " + round + " of " + job; // without options
  }
}
