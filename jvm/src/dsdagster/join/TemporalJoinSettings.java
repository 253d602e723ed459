package dsdagster.join;

import java.io.Serializable;

/**
 * Settings of a temporal join.
 *
 * @param outer a stream row without a version is emitted with nulls (LEFT) instead of being left out (INNER)
 * @param immediate join with the versions seen so far instead of waiting for the watermark
 * @param retentionMicros how long an ended version is kept for late stream rows
 * @param mostVersions largest number of final versions per key
 * @param edgeMillis difference between event time and the watermark
 */
record TemporalJoinSettings(
    boolean outer, boolean immediate, long retentionMicros, int mostVersions, long edgeMillis)
    implements Serializable {}
