package dsdagster.kafka;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * What the driver gets from a task that wrote to the broker itself.
 *
 * @param prepared its open transaction; null if the task had no rows
 * @param isRepeated an earlier attempt of the task has failed, and may have left a transaction open
 */
record TaskEnd(Prepared prepared, boolean isRepeated) implements WriterCommitMessage {}
