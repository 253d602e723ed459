package dsdagster.state.keys;

import dsdagster.PrivateField;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.streaming.state.RocksDB;
import org.apache.spark.sql.execution.streaming.state.RocksDBConf;
import org.apache.spark.sql.execution.streaming.state.RocksDBEventForwarder;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreCheckpointInfo;
import org.rocksdb.RocksIterator;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * RocksDB that is not asked for keys that it cannot have, neither by reads nor to count rows. What it keeps, its files and
 * its counts are Spark's.
 *
 * <p>Why: Spark 4.2 looks for a key again when it puts or removes it, to count the rows. A look takes one microsecond,
 * whether it finds the key or not. Of a window that is counted, a group is looked for in vain, put after a second look, and
 * removed after a third.
 *
 * <p>Rules: the keys are known from the empty store on, or, after a restart, if there are at most {@link #MOST_READ}, by
 * reading them. Where they are not known, Spark's own looks are made.
 */
final class KnownKeysDB extends RocksDB {
  /** Largest number of keys that are read when a store is loaded: less than half a second. */
  private static final long MOST_READ = 1_000_000;

  private static final int PREFIX = RocksDBStateStoreProvider.VIRTUAL_COL_FAMILY_PREFIX_BYTES();

  private final RocksDBConf uncounted;
  private final KnownKeys keys = new KnownKeys();
  /** Column family → whether Spark keeps it for itself, and counts its rows apart. */
  private final Map<String, Boolean> families = new HashMap<>();
  private final boolean hasFamilies;
  private final Fields fields;
  private boolean isCounting = true;
  private boolean isLoading;
  private long more;
  private long moreInternal;

  /** Private fields of Spark's class. */
  record Fields(Field database, Field rows, Field internalRows) {
    /** @throws NoSuchFieldException Spark has other fields */
    static Fields find() throws NoSuchFieldException {
      return new Fields(
          PrivateField.of(RocksDB.class, "db"),
          PrivateField.of(RocksDB.class, "numKeysOnWritingVersion"),
          PrivateField.of(RocksDB.class, "numInternalKeysOnWritingVersion"));
    }
  }

  KnownKeysDB(
      String folder,
      RocksDBConf conf,
      File local,
      Configuration hadoop,
      String loggingId,
      boolean hasFamilies,
      boolean hasIds,
      int partition,
      Option<RocksDBEventForwarder> events,
      Option<String> id,
      Fields fields) {
    super(folder, conf, local, hadoop, loggingId, hasFamilies, hasIds, partition, events, id);
    this.hasFamilies = hasFamilies;
    this.fields = fields;
    this.uncounted = uncounted(conf);
    families.put(StateStore.DEFAULT_COL_FAMILY_NAME(), false);
  }

  /** Settings without the look for a key that is put or removed. */
  private static RocksDBConf uncounted(RocksDBConf conf) {
    Object[] values = new Object[conf.productArity()];
    for (int i = 0; i < values.length; i++) {
      values[i] = conf.productElementName(i).equals("trackTotalNumberOfRows") ? false : conf.productElement(i);
    }
    Constructor<?> made = RocksDBConf.class.getConstructors()[0];
    try {
      return (RocksDBConf) made.newInstance(values);
    } catch (ReflectiveOperationException problem) {
      throw new IllegalStateException(problem); // a case class is made of its elements
    }
  }

  @Override
  public RocksDBConf conf() {
    return isCounting || uncounted == null ? super.conf() : uncounted;
  }

  @Override
  public short createColFamilyIfAbsent(String name, boolean isInternal) {
    if (families != null) { // null while Spark's constructor runs
      families.put(name, isInternal);
    }
    return super.createColFamilyIfAbsent(name, isInternal);
  }

  @Override
  public RocksDB load(long version, Option<String> id, boolean isReadOnly, boolean isEmpty) {
    Object before = value(fields.database());
    isLoading = true;
    try {
      super.load(version, id, isReadOnly, isEmpty);
    } finally {
      isLoading = false;
    }
    more = 0;
    moreInternal = 0;
    if (value(fields.database()) != before) {
      read();
    }
    return this;
  }

  @Override
  public RocksDB loadFromSnapshot(long from, long version, Option<String> fromId, Option<String> id) {
    keys.forget();
    isLoading = true;
    try {
      return super.loadFromSnapshot(from, version, fromId, id);
    } finally {
      isLoading = false;
    }
  }

  /** Reads all keys, unless there are too many. */
  private void read() {
    keys.forget();
    if (rows() > MOST_READ || !conf().trackTotalNumberOfRows()) {
      return;
    }
    Map<Short, String> names = new HashMap<>();
    for (String name : CollectionConverters.asJava(allColumnFamilyNames())) {
      names.put(super.createColFamilyIfAbsent(name, false), name);
    }
    keys.begin();
    try (RocksIterator all = ((org.rocksdb.RocksDB) value(fields.database())).newIterator()) {
      for (all.seekToFirst(); all.isValid() && keys.hasRoom(); all.next()) {
        byte[] key = all.key();
        if (hasFamilies) {
          keys.add(names.get(RocksDBStateStoreProvider.getColumnFamilyBytesAsId(key)), key, PREFIX);
        } else {
          keys.add(StateStore.DEFAULT_COL_FAMILY_NAME(), key, 0);
        }
      }
    }
  }

  @Override
  public byte[] get(byte[] key, String family) {
    return keys.isAbsent(family, key) ? null : super.get(key, family);
  }

  @Override
  public boolean keyExists(byte[] key, String family) {
    return !keys.isAbsent(family, key) && super.keyExists(key, family);
  }

  @Override
  public void put(
      byte[] key, byte[] value, String family, boolean hasPrefix, boolean findsFamily, boolean hasChecksum) {
    write(!counts(family, key, hasPrefix), () -> super.put(key, value, family, hasPrefix, findsFamily, hasChecksum));
  }

  @Override
  public void merge(
      byte[] key, byte[] value, String family, boolean hasPrefix, boolean findsFamily, boolean hasChecksum) {
    write(!counts(family, key, hasPrefix), () -> super.merge(key, value, family, hasPrefix, findsFamily, hasChecksum));
  }

  @Override
  public void putList(
      byte[] key,
      scala.collection.immutable.List<byte[]> values,
      String family,
      boolean hasPrefix,
      boolean findsFamily,
      boolean hasChecksum) {
    write(!counts(family, key, hasPrefix), () -> super.putList(key, values, family, hasPrefix, findsFamily, hasChecksum));
  }

  @Override
  public void mergeList(
      byte[] key,
      scala.collection.immutable.List<byte[]> values,
      String family,
      boolean hasPrefix,
      boolean findsFamily,
      boolean hasChecksum) {
    write(!counts(family, key, hasPrefix), () -> super.mergeList(key, values, family, hasPrefix, findsFamily, hasChecksum));
  }

  @Override
  public void remove(byte[] key, String family, boolean hasPrefix, boolean findsFamily, boolean hasChecksum) {
    boolean counts = knows(hasPrefix);
    if (counts && keys.remove(family, key)) {
      counts = count(family, -1);
    }
    write(!counts, () -> super.remove(key, family, hasPrefix, findsFamily, hasChecksum));
  }

  /** A range is removed whose keys nobody names. */
  @Override
  public void deleteRange(byte[] begin, byte[] end, String family, boolean hasPrefix, boolean hasChecksum) {
    keys.forget();
    super.deleteRange(begin, end, family, hasPrefix, hasChecksum);
  }

  @Override
  public Tuple2<Object, StateStoreCheckpointInfo> commit(boolean forceSnapshot) {
    add(fields.rows(), more);
    add(fields.internalRows(), moreInternal);
    more = 0;
    moreInternal = 0;
    Tuple2<Object, StateStoreCheckpointInfo> done = super.commit(forceSnapshot);
    if (keys.isWorthReading() && rows() <= MOST_READ) {
      read();
    }
    return done;
  }

  @Override
  public void close() {
    keys.forget();
    super.close();
  }

  /** Writes; {@code looks}: Spark looks for the key, to count. */
  private void write(boolean looks, Runnable writing) {
    isCounting = looks;
    try {
      writing.run();
    } finally {
      isCounting = true;
    }
  }

  /** Counts a key that is put; false if Spark has to look for it. */
  private boolean counts(String family, byte[] key, boolean hasPrefix) {
    if (!knows(hasPrefix) || !keys.hasRoom()) {
      return false;
    }
    return !keys.add(family, key, 0) || count(family, 1);
  }

  /** Whether all keys are known. One that names its family itself comes with a load, which then reads all keys. */
  private boolean knows(boolean hasPrefix) {
    if (isLoading) {
      return false;
    }
    if (hasPrefix) {
      keys.forget();
    }
    return keys.isComplete();
  }

  /** Counts a change of the number of rows; false if it is not known among which Spark counts them. */
  private boolean count(String family, int change) {
    Boolean isInternal = families.get(family);
    if (isInternal == null) {
      return false;
    }
    if (isInternal) {
      moreInternal += change;
    } else {
      more += change;
    }
    return true;
  }

  private long rows() {
    return (Long) value(fields.rows()) + (Long) value(fields.internalRows());
  }

  private void add(Field field, long change) {
    if (change != 0) {
      try {
        field.set(this, (Long) field.get(this) + change);
      } catch (IllegalAccessException problem) {
        throw new IllegalStateException(problem); // it is accessible
      }
    }
  }

  private Object value(Field field) {
    try {
      return field.get(this);
    } catch (IllegalAccessException problem) {
      throw new IllegalStateException(problem);
    }
  }
}
