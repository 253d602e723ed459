package dsdagster.cluster;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaFutureAction;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.storage.BlockManagerId;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Runs work in the JVM of every executor; with a local master, in this JVM.
 *
 * <p>Rule, of Spark 4.2: a task is sent to the executor it prefers, and to another executor when that one has had no
 * free core for {@code spark.locality.wait}. So each task reports where it ran, and further tasks are sent for the
 * executors that have not reported.
 */
public final class EveryExecutor {
  private static final String LOCATION = "executor_";
  private static final String DRIVER = "driver";
  private static final long MOST_NANOS = TimeUnit.SECONDS.toNanos(30);

  private EveryExecutor() {}

  /** Work for an executor; may run there several times. */
  public interface Work<T> extends Serializable {
    T run();
  }

  /**
   * Results by executor id.
   *
   * @param silent host and id of live executors that did not answer within half a minute
   */
  public record Answers<T>(Map<String, T> byExecutor, List<String> silent) {}

  /** Runs {@code work} in every live executor. */
  public static <T extends Serializable> Answers<T> run(SparkContext context, Work<T> work) {
    if (context.isLocal()) {
      return new Answers<>(Map.of(DRIVER, work.run()), List.of());
    }
    Map<String, T> answers = new TreeMap<>();
    long begin = System.nanoTime();
    Map<String, String> left = left(Set.of());
    for (long nanos = MOST_NANOS; !left.isEmpty() && nanos > 0; nanos = MOST_NANOS - (System.nanoTime() - begin)) {
      collected(sent(context, left, work), nanos).forEach(answer -> answers.put(answer._1, answer._2));
      left = left(answers.keySet());
    }
    List<String> silent = new ArrayList<>();
    left.forEach((id, host) -> silent.add(host + " (executor " + id + ")"));
    return new Answers<>(answers, silent);
  }

  private static <T extends Serializable> JavaRDD<Tuple2<String, T>> sent(
      SparkContext context, Map<String, String> executors, Work<T> work) {
    List<Tuple2<String, Seq<String>>> places = new ArrayList<>();
    executors.forEach((id, host) -> places.add(new Tuple2<>(id, sequence(List.of(LOCATION + host + "_" + id)))));
    ClassTag<String> text = ClassTag$.MODULE$.apply(String.class);
    return context
        .makeRDD(sequence(places), text)
        .toJavaRDD()
        .map(asked -> new Tuple2<>(SparkEnv.get().executorId(), work.run()));
  }

  /** The rows; empty after {@code nanos}: executors are busy, or are gone without a replacement. */
  private static <T> List<T> collected(JavaRDD<T> rows, long nanos) {
    JavaFutureAction<List<T>> action = rows.collectAsync();
    try {
      return action.get(nanos, TimeUnit.NANOSECONDS);
    } catch (TimeoutException busy) {
      action.cancel(true);
    } catch (ExecutionException failure) {
      throw new CompletionException(failure.getCause());
    } catch (InterruptedException stopped) {
      action.cancel(true);
      Thread.currentThread().interrupt();
      throw new CompletionException(stopped);
    }
    return List.of();
  }

  private static <T> Seq<T> sequence(List<T> items) {
    return CollectionConverters.asScala(items.iterator()).toSeq();
  }

  /** Id → host of each live executor that is not in {@code without}. */
  private static Map<String, String> left(Set<String> without) {
    Map<String, String> hosts = new TreeMap<>();
    for (BlockManagerId place :
        CollectionConverters.asJava(SparkEnv.get().blockManager().master().getMemoryStatus()).keySet()) {
      if (!place.isDriver() && !without.contains(place.executorId())) {
        hosts.put(place.executorId(), place.host());
      }
    }
    return hosts;
  }
}
