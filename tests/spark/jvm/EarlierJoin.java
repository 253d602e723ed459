package dsdagster.delta.join;

import dsdagster.Keyed;
import dsdagster.state.StoredMaps;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statevariables.MapStateImpl;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** A checkpoint in which each row of a join is a value of its own, as in earlier versions, is gone on with. */
public final class EarlierJoin {
  private static final StructType OUTPUT =
      new StructType().add("l", DataTypes.BinaryType).add("r", DataTypes.BinaryType).add("w", DataTypes.LongType);
  private static final String ROWS = "k bigint, side int, l struct<v: bigint>, r struct<v: bigint>, w bigint";
  private static final List<String> BEFORE =
      List.of(
          "{'k': 1, 'side': 0, 'l': {'v': 10}, 'w': 1}",
          "{'k': 1, 'side': 1, 'r': {'v': 20}, 'w': 1}");
  private static final List<String> AFTER =
      List.of(
          "{'k': 1, 'side': 0, 'l': {'v': 10}, 'w': -1}",
          "{'k': 1, 'side': 0, 'l': {'v': 11}, 'w': 1}",
          "{'k': 2, 'side': 0, 'l': {'v': 12}, 'w': 1}",
          "{'k': 2, 'side': 1, 'r': {'v': 22}, 'w': 1}");
  private static final String RESULT = "[[10,20,-1], [11,20,1], [12,22,1]]";
  /** Batch → whether the maps were empty when it began, by task. */
  private static final Map<Long, List<Boolean>> EMPTY = new ConcurrentHashMap<>();

  private EarlierJoin() {}

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]);
    SparkSession spark =
        SparkSession.builder()
            .master("local[2]")
            .config("spark.ui.enabled", false)
            .config("spark.sql.shuffle.partitions", 1)
            .config(
                "spark.sql.streaming.stateStore.providerClass",
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
            .getOrCreate();
    Path input = Files.createDirectory(folder.resolve("rows"));
    Dataset<Row> rows = spark.readStream().schema(ROWS).option("maxFilesPerTrigger", 1).json(input.toString());
    write(input, "1", BEFORE);
    run(earlier(rows), folder);
    write(input, "2", AFTER);
    List<Row> found = run(DeltaJoin.apply(rows, 1, "inner", 0).select("l.v", "r.v", "w"), folder);
    expect(sorted(found).equals(RESULT), "rows " + sorted(found));
    write(input, "3", List.of("{'k': 3, 'side': 0, 'l': {'v': 1}, 'w': 1}"));
    run(earlier(rows), folder);
    expect(EMPTY.toString().equals("{0=[true], 2=[false]}"), "empty " + EMPTY);
    System.out.println("equal");
  }

  private static void write(Path folder, String name, List<String> lines) throws Exception {
    Path hidden = folder.resolve("." + name);
    Files.write(hidden, lines.stream().map(line -> line.replace('\'', '"')).toList());
    Files.move(hidden, folder.resolve(name + ".json"));
  }

  private static List<Row> run(Dataset<Row> frame, Path folder) throws Exception {
    List<Row> found = Collections.synchronizedList(new ArrayList<>());
    frame
        .writeStream()
        .option("checkpointLocation", folder.resolve("checkpoint").toString())
        .trigger(Trigger.AvailableNow())
        .foreachBatch((batch, epoch) -> { found.addAll(batch.collectAsList()); })
        .start()
        .awaitTermination();
    return found;
  }

  private static String sorted(List<Row> rows) {
    TreeSet<String> texts = new TreeSet<>();
    rows.forEach(row -> texts.add(row.toString()));
    return texts.toString();
  }

  private static Dataset<Row> earlier(Dataset<Row> rows) {
    return Keyed.grouped(DeltaJoin.packed(rows, 1), 1)
        .transformWithState(new Earlier(), TimeMode.None(), OutputMode.Append(), Encoders.row(OUTPUT));
  }

  /** Keeps each row as a value of its own, and has no head. */
  private static final class Earlier extends StatefulProcessor<Row, Row, Row> {
    private static final long serialVersionUID = 1L;
    private transient List<MapState<byte[], Long>> sides;

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
      sides = new ArrayList<>();
      for (String name : new String[] {"left", "right"}) {
        sides.add(getHandle().getMapState(name, Encoders.BINARY(), Encoders.LONG(), TTLConfig.NONE()));
      }
      getHandle().getValueState("head", Encoders.BINARY(), TTLConfig.NONE());
      if (sides.get(0) instanceof MapStateImpl) {
        boolean isEmpty = StoredMaps.isEmpty(sides.get(0));
        EMPTY.computeIfAbsent(getHandle().getQueryInfo().getBatchId(), any -> new ArrayList<>()).add(isEmpty);
      }
    }

    @Override
    public Iterator<Row> handleInputRows(Row key, Iterator<Row> rows, TimerValues times) {
      CollectionConverters.asJava(rows)
          .forEachRemaining(row -> sides.get(row.getInt(1)).updateValue(row.getAs(3), row.getLong(4)));
      return Keyed.iterator(List.of());
    }
  }

  private static void expect(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
