package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;

/**
 * One successful look at an input: a request for its newest offsets.
 *
 * @param wall time of day before the request, microseconds
 * @param steady elapsed-time clock at that moment, microseconds
 * @param found elapsed-time clock after the answer, microseconds
 * @param starts partition → position up to which records have been read and committed
 * @param batchEnds partition → position at the end of the batch that is being planned
 * @param ends partition → end known to the source (for a source that reports, the end of the next batch)
 * @param logEnds partition → end of the log including open transactions, requested before {@code ends}; null: not
 *     requested
 * @param leaders partition → the broker that stamps its records; empty if unknown
 * @param reports partition → report of the source ({@code complete_until} in epoch milliseconds, {@code finished});
 *     null: the source does not report
 * @param incomplete nothing may be concluded about completeness, since the request for the log's end failed
 */
record Look(
    long wall,
    long steady,
    long found,
    Map<String, String> starts,
    Map<String, String> batchEnds,
    Map<String, String> ends,
    Map<String, String> logEnds,
    Map<String, String> leaders,
    JsonNode reports,
    boolean incomplete) {}
