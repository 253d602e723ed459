package dsdagster.state.keys;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.ByteArrayPair;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.util.NextIterator;
import scala.Option;
import scala.collection.immutable.Map$;

/**
 * Random batches on a store that knows its keys, compared with maps: {@code KnownKeysModel FOLDER FIRST_SEED COUNT}.
 * Batches are committed, dropped, repeated from an earlier version, and go on in a store that is opened anew.
 */
public final class KnownKeysModel {
  private static final String CONF = "spark.sql.streaming.stateStore.";
  private static final List<String> FAMILIES = List.of("default", "values", "$ends");

  private final Random dice;
  private final String folder;
  private final boolean hasFamilies;
  private final boolean isKnown;
  private final int keys;
  /** Version → family → key → value. */
  private final TreeMap<Long, Map<String, Map<String, String>>> versions = new TreeMap<>();
  private KnownKeysDB store;

  private KnownKeysModel(Path folder, long seed) throws Exception {
    dice = new Random(seed);
    this.folder = Files.createTempDirectory(folder, "store").toString();
    hasFamilies = dice.nextBoolean();
    isKnown = dice.nextInt(4) > 0;
    keys = dice.nextBoolean() ? 20 : 3_000;
    versions.put(0L, new HashMap<>());
    open();
  }

  public static void main(String[] arguments) throws Exception {
    long first = Long.parseLong(arguments[1]);
    for (long seed = first; seed < first + Integer.parseInt(arguments[2]); seed++) {
      try {
        new KnownKeysModel(Path.of(arguments[0]), seed).run();
      } catch (RuntimeException | AssertionError failure) {
        throw new IllegalStateException("seed " + seed, failure);
      }
    }
    System.out.println("equal");
  }

  private void open() throws Exception {
    SQLConf conf = new SQLConf();
    conf.setConfString(CONF + "rocksdb.changelogCheckpointing.enabled", "true");
    conf.setConfString(CONF + "minDeltasForSnapshot", "3");
    File local = Files.createTempDirectory("local").toFile();
    local.deleteOnExit();
    store =
        new KnownKeysDB(
            folder, RocksDBConf.apply(new StateStoreConf(conf, Map$.MODULE$.empty())), local, new Configuration(), "store",
            hasFamilies, false, 0, Option.empty(), Option.empty(), KnownKeysDB.Fields.find());
  }

  private void run() throws Exception {
    long version = 0;
    for (int batch = 0; batch < 12; batch++) {
      if (dice.nextInt(4) == 0) {
        store.close();
        open();
      }
      if (dice.nextInt(5) == 0) {
        version = versions.floorKey(version - dice.nextInt(2) * (version > 1 ? 1 : 0));
        versions.tailMap(version, false).clear();
      }
      store.load(version, Option.empty(), false, false);
      Map<String, Map<String, String>> model = copy(versions.get(version));
      if (hasFamilies) {
        FAMILIES.forEach(family -> store.createColFamilyIfAbsent(family, family.startsWith("$")));
      }
      int forgotten = isKnown ? -1 : dice.nextInt(4 * keys);
      for (int i = 0; i < 2 * keys; i++) {
        if (i == forgotten) {
          store.deleteRange(bytes("k"), bytes("k"), "default", false, false); // an empty range, behind which none is known
        }
        operate(model);
      }
      if (dice.nextInt(4) == 0) {
        store.rollback();
        continue;
      }
      store.commit(false);
      version++;
      versions.put(version, model);
      compare(model);
      store.doMaintenance();
    }
    store.close();
  }

  private void operate(Map<String, Map<String, String>> model) {
    String family = hasFamilies ? FAMILIES.get(dice.nextInt(FAMILIES.size())) : "default";
    Map<String, String> rows = model.computeIfAbsent(family, any -> new HashMap<>());
    String key = "k" + dice.nextInt(keys);
    switch (dice.nextInt(6)) {
      case 0, 1 -> {
        String value = String.valueOf(dice.nextInt());
        store.put(bytes(key), bytes(value), family, false, false, false);
        rows.put(key, value);
      }
      case 2 -> {
        store.remove(bytes(key), family, false, false, false);
        rows.remove(key);
      }
      case 3 -> {
        store.merge(bytes(key), bytes("+"), family, false, false, false);
        rows.merge(key, "+", String::concat);
      }
      default -> {
        byte[] value = store.get(bytes(key), family);
        String found = value == null ? null : text(value);
        check(Objects.equals(found, rows.get(key)), family + " " + key + ": " + found + ", not " + rows.get(key));
        check(store.keyExists(bytes(key), family) == rows.containsKey(key), family + " " + key + " exists");
      }
    }
  }

  private void compare(Map<String, Map<String, String>> model) {
    long internal = model.getOrDefault("$ends", Map.of()).size();
    long own = model.values().stream().mapToLong(Map::size).sum() - internal;
    check(store.metricsOpt().get().numUncommittedKeys() == own, store.metricsOpt().get().json() + " not " + own);
    check(store.metricsOpt().get().numInternalKeys() == internal, store.metricsOpt().get().json());
    for (Map.Entry<String, Map<String, String>> family : model.entrySet()) {
      Map<String, String> found = new HashMap<>();
      NextIterator<ByteArrayPair> all = store.iterator(family.getKey());
      while (all.hasNext()) {
        ByteArrayPair row = all.next();
        found.put(text(row.key()), text(row.value()));
      }
      check(found.equals(family.getValue()), family.getKey());
    }
  }

  private static Map<String, Map<String, String>> copy(Map<String, Map<String, String>> model) {
    Map<String, Map<String, String>> made = new HashMap<>();
    model.forEach((family, rows) -> made.put(family, new HashMap<>(rows)));
    return made;
  }

  private static void check(boolean holds, String text) {
    if (!holds) {
      throw new AssertionError(text);
    }
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
