package dsdagster.delta.rank;

import org.apache.spark.sql.Row;

/**
 * A row that may be among the first.
 *
 * @param order what it is sorted by
 * @param row the packed row
 */
record Candidate(Row order, byte[] row) {}
