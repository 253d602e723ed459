package dsdagster.kafka;

import java.io.Serializable;

/**
 * A task's transaction that holds all of its records and is still open.
 *
 * @param name the part of the transactional id that follows the job's: {@code executor.slot.turn}, see {@link Slots}
 * @param producerId id of the producer, by the broker
 * @param producerEpoch epoch of the producer; a later owner of the id has another one
 * @param round the {@link TaskRound} that it was written in
 */
record Prepared(String name, long producerId, short producerEpoch, long round) implements Serializable {}
