package dsdagster.checkpoint;

import dsdagster.OperatorFault;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * State stores of runs that have ended.
 *
 * <p>Rule, of Spark 4.2: they stay open until the next run of the query, or up to a minute, and write the snapshots that
 * are due then. By that time the checkpoint may have been taken back to an earlier batch: a snapshot of a batch that it
 * has no longer would be read as the state of the batch that gets its number next.
 */
public final class EndedStores {
  private EndedStores() {}

  /** Writes what is due of each and closes it. Stores in other processes are left to Spark. */
  public static void close(SparkSession session) {
    Set<UUID> running = new HashSet<>();
    ((org.apache.spark.sql.classic.SparkSession) session)
        .sharedState()
        .activeStreamingQueries()
        .values()
        .forEach(query -> running.add(query.runId()));
    HashMap<StateStoreProviderId, StateStoreProvider> loaded = loaded();
    List<StateStoreProviderId> ended = new ArrayList<>();
    synchronized (loaded) {
      for (StateStoreProviderId id : CollectionConverters.asJava(loaded.keySet())) {
        if (!running.contains(id.queryRunId())) {
          ended.add(id);
        }
      }
    }
    for (StateStoreProviderId id : ended) {
      StateStore$.MODULE$.doMaintenanceAndUnload(id);
    }
  }

  @SuppressWarnings("unchecked")
  private static HashMap<StateStoreProviderId, StateStoreProvider> loaded() {
    try {
      Field field = StateStore$.class.getDeclaredField("loadedProviders");
      field.setAccessible(true);
      return (HashMap<StateStoreProviderId, StateStoreProvider>) field.get(null);
    } catch (ReflectiveOperationException other) {
      throw new OperatorFault("INTERNAL", "state stores of this version of Spark", other);
    }
  }
}
