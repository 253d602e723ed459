package dsdagster.checkpoint;

import dsdagster.OperatorFault;
import dsdagster.PrivateField;
import dsdagster.cluster.EveryExecutor;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * State stores of runs that have ended.
 *
 * <p>Rule, of Spark 4.2: they stay open until the next run of the query, or up to a minute, and then write snapshots
 * that are due. By that time the checkpoint may have been taken back to an earlier batch: a snapshot of a removed
 * batch would be read as the state of the next batch with its number.
 */
public final class EndedStores {
  private EndedStores() {}

  /**
   * Result of closing stores.
   *
   * @param stores number of closed stores
   * @param silent executors that did not answer and may still have open stores
   */
  public record Closed(int stores, List<String> silent) {}

  /** Writes the due snapshots of each store and closes it, in the driver or in the executors of a cluster. */
  public static Closed close(SparkSession session) {
    SparkContext context = session.sparkContext();
    EveryExecutor.Answers<HashSet<UUID>> open = EveryExecutor.run(context, EndedStores::runs);
    HashSet<UUID> ended = new HashSet<>();
    open.byExecutor().values().forEach(ended::addAll);
    ended.removeAll(running(session)); // a run is listed there before it opens a store
    if (ended.isEmpty()) {
      return new Closed(0, open.silent());
    }
    EveryExecutor.Answers<Integer> closed = EveryExecutor.run(context, () -> closed(ended));
    return new Closed(closed.byExecutor().values().stream().mapToInt(Integer::intValue).sum(), closed.silent());
  }

  private static Set<UUID> running(SparkSession session) {
    Set<UUID> running = new HashSet<>();
    ((org.apache.spark.sql.classic.SparkSession) session)
        .sharedState()
        .activeStreamingQueries()
        .values()
        .forEach(query -> running.add(query.runId()));
    return running;
  }

  /** Runs that have stores in this JVM. */
  private static HashSet<UUID> runs() {
    HashSet<UUID> runs = new HashSet<>();
    open().forEach(id -> runs.add(id.queryRunId()));
    return runs;
  }

  private static int closed(Set<UUID> ended) {
    List<StateStoreProviderId> stores = open().stream().filter(id -> ended.contains(id.queryRunId())).toList();
    stores.forEach(StateStore$.MODULE$::doMaintenanceAndUnload);
    return stores.size();
  }

  private static List<StateStoreProviderId> open() {
    HashMap<StateStoreProviderId, StateStoreProvider> loaded = loaded();
    synchronized (loaded) {
      return new ArrayList<>(CollectionConverters.asJava(loaded.keySet()));
    }
  }

  @SuppressWarnings("unchecked")
  private static HashMap<StateStoreProviderId, StateStoreProvider> loaded() {
    try {
      return (HashMap<StateStoreProviderId, StateStoreProvider>)
          PrivateField.of(StateStore$.class, "loadedProviders").get(null);
    } catch (ReflectiveOperationException other) {
      throw new OperatorFault("INTERNAL", "state stores of this version of Spark", other);
    }
  }
}
