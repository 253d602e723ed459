package dsdagster.checkpoint;

import dsdagster.OperatorFault;
import java.io.IOException;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqBase;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata$;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.ReadStateStore;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker$;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreIterator;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The groups of a checkpoint in another form: with more results than the checkpoint has, which each group gets as they
 * are before the first row, and in the kind of store that the session asks for.
 *
 * <p>Rule, of Spark 4.2: the state of an aggregate is operator 0, store "default", a row of all buffers per group; a
 * snapshot of one version needs no file of earlier versions; the schema of the state is a file of its own.
 */
public final class GrownState {
  private static final long OPERATOR = 0;
  private static final int SCHEMA_VERSION = 2;
  private static final String PROVIDER = "spark.sql.streaming.stateStore.providerClass";

  private final SparkSession session;
  private final Configuration hadoop;
  private final StructType keys;
  private final StructType before;
  private final StructType after;
  private final GroupBuffers buffers;
  private final String from;

  /** Without buffers, groups keep the results that they have. */
  private GrownState(SparkSession session, GroupBuffers buffers, StateStoreColFamilySchema held, String from) {
    this.session = session;
    this.hadoop = session.sessionState().newHadoopConf();
    this.buffers = buffers;
    this.keys = held.keySchema();
    this.before = held.valueSchema();
    this.after = buffers == null ? before : buffers.values();
    this.from = from;
  }

  /** The state of a checkpoint, null if it has none or has all results of the query. */
  private static GrownState of(Dataset<Row> rows, String mode, String checkpoint) {
    SparkSession session = (SparkSession) rows.sparkSession();
    StateStoreColFamilySchema held = StateSchemas.of(checkpoint, OPERATOR, session.sessionState().newHadoopConf());
    if (held == null) {
      return null;
    }
    GroupBuffers buffers = GroupBuffers.of(session, rows, mode);
    buffers.checkHolds(held.keySchema(), held.valueSchema());
    return buffers.size() == held.valueSchema().size() ? null : new GrownState(session, buffers, held, checkpoint);
  }

  /** Whether the query computes results that the state of its checkpoint has no place for. */
  public static boolean isNeeded(Dataset<Row> rows, String mode, String checkpoint) {
    return of(rows, mode, checkpoint) != null;
  }

  /**
   * Writes the state with the added results, into stores of the kind that the session asks for.
   *
   * @param checkpoint whose state is read
   * @param target another checkpoint, with logs and without state
   * @param batch last finished batch, whose state is read and written
   * @return number of groups
   */
  public static long write(Dataset<Row> rows, String mode, String checkpoint, String target, long batch) {
    GrownState state = of(rows, mode, checkpoint);
    if (state == null) {
      throw new OperatorFault("INTERNAL", "the state of " + checkpoint + " needs no more results");
    }
    long groups = state.copyAll(target, batch);
    state.writeSchema(target);
    return groups;
  }

  /**
   * Writes the state as it is, into stores of the kind that the session asks for.
   *
   * @param checkpoint, target, batch as for {@link #write}
   * @return number of groups
   */
  public static long move(org.apache.spark.sql.SparkSession any, String checkpoint, String target, long batch) {
    SparkSession session = (SparkSession) any;
    StateStoreColFamilySchema held = StateSchemas.of(checkpoint, OPERATOR, session.sessionState().newHadoopConf());
    return held == null ? 0 : new GrownState(session, null, held, checkpoint).copyAll(target, batch);
  }

  private long copyAll(String target, long batch) {
    session.sessionState().streamingQueryManager().stateStoreCoordinator(); // stores report to it
    SQLConf settings = settings(batch);
    StateStoreConf read = new StateStoreConf(settings, Map$.MODULE$.empty());
    SQLConf asked = settings.clone();
    asked.setConfString(PROVIDER, session.sessionState().conf().getConfString(PROVIDER));
    StateStoreConf written = new StateStoreConf(asked, Map$.MODULE$.empty());
    long groups = 0;
    for (int part : StateSchemas.numbered(folder(from), hadoop)) {
      groups += copy(part, target, read, written, batch + 1);
    }
    return groups;
  }

  /** Settings of the state store, as the batch had them. */
  private SQLConf settings(long batch) {
    SQLConf settings = session.sessionState().conf().clone();
    OffsetSeqLog log = new OffsetSeqLog(session, new Path(from, "offsets").toString(), true);
    OffsetSeqBase entry = log.get(batch).get();
    OffsetSeqMetadata$.MODULE$.setSessionConf(entry.metadataOpt().get(), settings);
    return settings;
  }

  private static Path folder(String checkpoint) {
    return new Path(new Path(checkpoint, StateSchemas.STATE), Long.toString(OPERATOR));
  }

  private long copy(int part, String target, StateStoreConf asRead, StateStoreConf asWritten, long version) {
    StateStoreProvider read = provider(from, part, before, asRead);
    StateStoreProvider written = provider(target, part, after, asWritten);
    boolean isHeap = written instanceof HDFSBackedStateStoreProvider;
    try {
      ReadStateStore old = read.getReadStore(version, Option.empty());
      StateStore grown = written.getStore(isHeap ? 0 : version - 1, Option.empty(), !isHeap, !isHeap);
      UnsafeProjection row = buffers == null ? null : buffers.grownFrom(before);
      long groups = 0;
      try (StateStoreIterator<UnsafeRowPair> pairs = old.iterator(StateSchemas.FAMILY)) {
        while (pairs.hasNext()) {
          UnsafeRowPair pair = pairs.next();
          grown.put(pair.key(), row == null ? pair.value() : row.apply(pair.value()), StateSchemas.FAMILY);
          groups++;
        }
      }
      grown.commit();
      old.release();
      if (isHeap) {
        asSnapshot(target, part, version, asWritten.minVersionsToRetain());
      }
      return groups;
    } finally {
      read.close();
      written.close();
    }
  }

  /**
   * Makes the first delta of a store on the heap the snapshot of a version: both are lists of all rows. Empty files stand
   * for earlier versions, since Spark looks for the oldest version to keep by its name.
   */
  private void asSnapshot(String target, int part, long version, int kept) {
    Path folder = new Path(folder(target), Integer.toString(part));
    try {
      FileSystem files = folder.getFileSystem(hadoop);
      Path delta = new Path(folder, "1.delta");
      if (!files.rename(delta, new Path(folder, version + ".snapshot"))) {
        throw new IOException(delta + " cannot be renamed");
      }
      for (long earlier = Math.max(1, version - kept); earlier < version; earlier++) {
        files.create(new Path(folder, earlier + ".delta")).close();
      }
    } catch (IOException failure) {
      throw BatchLog.unreadable("the state of " + target + " cannot be written", failure);
    }
  }

  private StateStoreProvider provider(String checkpoint, int part, StructType values, StateStoreConf conf) {
    return StateStoreProvider.createAndInit(
        StateSchemas.id(checkpoint, OPERATOR, part),
        keys,
        values,
        new NoPrefixKeyStateEncoderSpec(keys),
        false,
        conf,
        hadoop,
        false,
        Option.empty());
  }

  private void writeSchema(String target) {
    StateStoreColFamilySchema schema =
        new StateStoreColFamilySchema(
            StateSchemas.FAMILY, (short) 0, keys, (short) 0, after, Option.empty(), Option.empty());
    StatefulOperatorStateInfo info =
        new StatefulOperatorStateInfo(
            new Path(target, StateSchemas.STATE).toString(),
            UUID.randomUUID(),
            OPERATOR,
            0,
            1,
            Option.empty(),
            Option.empty());
    StateSchemaCompatibilityChecker$ checker = StateSchemaCompatibilityChecker$.MODULE$;
    checker.validateAndMaybeEvolveStateSchema(
        info,
        hadoop,
        (scala.collection.immutable.List<StateStoreColFamilySchema>) (Object)
            CollectionConverters.asScala(List.of(schema).iterator()).toList(),
        session.sessionState(),
        SCHEMA_VERSION,
        checker.validateAndMaybeEvolveStateSchema$default$6(),
        StateSchemas.FAMILY,
        checker.validateAndMaybeEvolveStateSchema$default$8(),
        Option.empty(),
        false);
  }
}
