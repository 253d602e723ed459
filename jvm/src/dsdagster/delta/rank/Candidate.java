package dsdagster.delta.rank;

import org.apache.spark.sql.Row;

/**
 * A row that may be among the first rows of its partition.
 *
 * @param order values of ORDER BY
 * @param row packed row
 */
record Candidate(Row order, byte[] row) {}
