package dsdagster.time;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;

/**
 * One successful look at an input.
 *
 * @param wall time of day before the source was asked, microseconds
 * @param steady elapsed-time clock at that moment, microseconds
 * @param found elapsed-time clock when the source had answered, microseconds
 * @param starts partition → what has been read and committed
 * @param batchEnds partition → what will have been read with the batch this look is for
 * @param ends partition → end known to the source (for a source that reports, the end of the next batch)
 * @param logEnds partition → end of the log including open transactions, asked for before {@code ends}; null: not asked
 * @param leaders partition → the broker that stamps its records; empty where that is not known
 * @param reports partition → what a source tells of itself ({@code complete_until} in epoch milliseconds,
 *     {@code finished}); null: it tells nothing
 * @param incomplete nothing may be concluded about completeness (the log's end was wanted and not to be had)
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
