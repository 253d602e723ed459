package dsdagster.avro;

import dsdagster.registry.Kept;
import dsdagster.registry.RegistrySettings;
import dsdagster.registry.SchemaKey;
import dsdagster.registry.Schemas;
import dsdagster.registry.Unreadable;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.spark.sql.types.StructType;

/** Plans that read records of each schema id as the declared columns; shared by all tasks of a run in this JVM. */
final class Plans {
  private static final Kept<Object, Plans> ALL = new Kept<>();

  private final RegistrySettings settings;
  private final Schema known;
  private final StructType columns;
  private final Map<SchemaKey, Plan> plans = new ConcurrentHashMap<>();

  private Plans(RegistrySettings settings, Schema known, StructType columns) {
    this.settings = settings;
    this.known = known;
    this.columns = columns;
  }

  /** The plans for a reader's schema (its id; negative without one) and columns. */
  static Plans of(RegistrySettings settings, int known, StructType columns) {
    return ALL.of(
        List.of(settings, known, columns),
        unused -> {
          Schemas.Found<Schema> found = known < 0 ? null : AvroFormat.of(settings).by(SchemaKey.ofId(known));
          return new Plans(settings, found == null ? null : found.schema, columns);
        });
  }

  /** Plan for one schema id; {@code reason}: why its records cannot be read. */
  static final class Plan {
    final RecordReader record;
    final ValueReader only;
    final String reason;

    private Plan(RecordReader record, ValueReader only, String reason) {
      this.record = record;
      this.only = only;
      this.reason = reason;
    }

    void fill(BinaryDecoder in, Object[] values) throws IOException {
      if (record != null) {
        record.fill(in, values);
      } else {
        values[0] = only.read(in);
      }
    }
  }

  Plan by(SchemaKey key) {
    Plan made = plans.get(key);
    if (made != null) {
      return made;
    }
    Schemas.Found<Schema> found = AvroFormat.of(settings).by(key);
    if (found == null) {
      return new Plan(null, null, "the registry " + settings.name + " does not know " + key);
    }
    made = found.reason != null ? new Plan(null, null, key + " " + found.reason) : compiled(key, found.schema);
    plans.put(key, made);
    return made;
  }

  private Plan compiled(SchemaKey key, Schema written) {
    try {
      if (written.getType() == Schema.Type.RECORD) {
        return ofRecord(key, written);
      }
      if (columns.size() == 1) {
        return new Plan(null, Readers.of(written, known, columns.fields()[0].dataType()), null);
      }
      return new Plan(null, null, key + " is not a record but " + Readers.shown(written));
    } catch (Unreadable problem) {
      return new Plan(null, null, key + " has another type for " + problem.getMessage());
    }
  }

  private Plan ofRecord(SchemaKey key, Schema written) {
    RecordReader reader = new RecordReader(written, Readers.branch(known, Schema.Type.RECORD), columns);
    for (int column = 0; column < columns.size(); column++) {
      if (reader.isMissing(column) && !columns.fields()[column].nullable()) {
        String name = columns.fields()[column].name();
        return new Plan(null, null, key + " has no field " + name + ", which has no default and is NOT NULL");
      }
    }
    return new Plan(reader, null, null);
  }
}
