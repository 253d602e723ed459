package dsdagster.delta;

import java.util.Iterator;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.streaming.MapState;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/** Weights, each a value of its own in the state store. */
public final class StoredWeights<K, S> implements Weights<K> {
  private final MapState<S, Long> stored;
  private final Function<K, S> write;
  private final Function<S, K> read;
  private final Expiry expiry;

  /**
   * @param write turns a thing into its key in the state store
   * @param read the inverse of {@code write}
   * @param expiry that of {@code stored}
   */
  public StoredWeights(MapState<S, Long> stored, Function<K, S> write, Function<S, K> read, Expiry expiry) {
    this.stored = stored;
    this.write = write;
    this.read = read;
    this.expiry = expiry;
  }

  @Override
  public long get(K thing) {
    Long found = stored.getValue(write.apply(thing));
    return found == null ? 0 : found;
  }

  @Override
  public void set(K thing, long weight) {
    if (weight == 0) {
      expiry.remove(stored, write.apply(thing));
    } else {
      stored.updateValue(write.apply(thing), weight);
    }
  }

  @Override
  public Iterator<Map.Entry<K, Long>> iterator() {
    Iterator<Tuple2<S, Long>> all = CollectionConverters.asJava(stored.iterator());
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return all.hasNext();
      }

      @Override
      public Map.Entry<K, Long> next() {
        Tuple2<S, Long> next = all.next();
        return Map.entry(read.apply(next._1()), next._2());
      }
    };
  }

  void clear() {
    stored.clear();
  }
}
