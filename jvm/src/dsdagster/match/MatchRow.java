package dsdagster.match;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** A row of one key: its number, its event time in microseconds, and its packed fields. */
final class MatchRow {
  final long number;
  final long ts;
  private final byte[] payload;
  private UnsafeRow fields;

  MatchRow(long number, long ts, byte[] payload) {
    this.number = number;
    this.ts = ts;
    this.payload = payload;
  }

  /** The fields, read from the packed bytes. Values stay valid, since the bytes never change. */
  UnsafeRow fields(int count) {
    if (fields == null) {
      fields = new UnsafeRow(count);
      fields.pointTo(payload, payload.length);
    }
    return fields;
  }
}
