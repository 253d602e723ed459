package dsdagster.join;

import java.io.Serializable;

/**
 * How a temporal join behaves.
 *
 * @param outer a stream row without version leaves with nulls (LEFT) instead of being left out (INNER)
 * @param immediate join to the versions seen so far instead of waiting for time
 * @param retentionMicros how long an ended version is kept for late stream rows
 * @param mostVersions most final versions kept per key
 * @param edgeMillis how far the watermark trails event time
 */
record TemporalJoinSettings(
    boolean outer, boolean immediate, long retentionMicros, int mostVersions, long edgeMillis)
    implements Serializable {}
