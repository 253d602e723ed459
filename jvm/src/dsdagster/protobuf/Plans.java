package dsdagster.protobuf;

import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import dsdagster.registry.Kept;
import dsdagster.registry.RegistrySettings;
import dsdagster.registry.SchemaKey;
import dsdagster.registry.Schemas;
import dsdagster.registry.Unreadable;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.types.StructType;

/** Plans that read records of each message as the declared columns; shared by all tasks of a run in this JVM. */
final class Plans {
  private static final Kept<Object, Plans> ALL = new Kept<>();

  private final RegistrySettings settings;
  private final FileDescriptor known;
  private final StructType columns;
  private final Map<Object, Plan> plans = new ConcurrentHashMap<>();

  private Plans(RegistrySettings settings, FileDescriptor known, StructType columns) {
    this.settings = settings;
    this.known = known;
    this.columns = columns;
  }

  /** The plans for a reader's schema (its id; negative without one) and columns. */
  static Plans of(RegistrySettings settings, int known, StructType columns) {
    return ALL.of(
        List.of(settings, known, columns),
        unused -> {
          Schemas.Found<FileDescriptor> found =
              known < 0 ? null : ProtobufFormat.of(settings).by(SchemaKey.ofId(known));
          return new Plans(settings, found == null ? null : found.schema, columns);
        });
  }

  /** Plan for one message of a schema; {@code reason}: why its records cannot be read. */
  static final class Plan {
    final MessageReader reader;
    final String reason;

    private Plan(MessageReader reader, String reason) {
      this.reader = reader;
      this.reason = reason;
    }
  }

  /** {@code indexes}: index of the message in its file, then of messages nested in it. */
  Plan by(SchemaKey key, List<Integer> indexes) {
    Object place = List.of(key, indexes);
    Plan made = plans.get(place);
    if (made != null) {
      return made;
    }
    Schemas.Found<FileDescriptor> found = ProtobufFormat.of(settings).by(key);
    if (found == null) {
      return new Plan(null, "the registry " + settings.name + " does not know " + key);
    }
    made = found.reason != null ? new Plan(null, key + " " + found.reason) : compiled(key, found.schema, indexes);
    plans.put(place, made);
    return made;
  }

  private Plan compiled(SchemaKey key, FileDescriptor file, List<Integer> indexes) {
    Descriptor message = null;
    List<Descriptor> among = file.getMessageTypes();
    for (int index : indexes) {
      if (index < 0 || index >= among.size()) {
        return new Plan(null, key + " has no message " + indexes);
      }
      message = among.get(index);
      among = message.getNestedTypes();
    }
    Descriptor same = known == null ? null : Descriptors.message(known, message.getFullName());
    return planned(message, same, columns, key.toString());
  }

  /** The plan of a message; {@code where}: its name in reasons. */
  static Plan planned(Descriptor message, Descriptor known, StructType columns, String where) {
    try {
      MessageReader reader = new MessageReader(message, known, columns);
      for (int column = 0; column < columns.size(); column++) {
        if (reader.isMissing(column) && !columns.fields()[column].nullable()) {
          String name = columns.fields()[column].name();
          return new Plan(null, where + " has no field " + name + ", which is NOT NULL");
        }
      }
      return new Plan(reader, null);
    } catch (Unreadable problem) {
      return new Plan(null, where + " has another type for " + problem.getMessage());
    }
  }
}
