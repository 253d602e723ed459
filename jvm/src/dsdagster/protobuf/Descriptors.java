package dsdagster.protobuf;

import com.google.protobuf.AnyProto;
import com.google.protobuf.ApiProto;
import com.google.protobuf.DescriptorProtos;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DurationProto;
import com.google.protobuf.EmptyProto;
import com.google.protobuf.FieldMaskProto;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.SourceContextProto;
import com.google.protobuf.StructProto;
import com.google.protobuf.TimestampProto;
import com.google.protobuf.TypeProto;
import com.google.protobuf.WrappersProto;
import dsdagster.registry.Unreadable;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Descriptors of messages from descriptors of files.
 *
 * <p>Files that a schema may import without including them are built in: those of Protobuf itself, and the three of
 * Google's and Confluent's common types that represent SQL types. Any other missing file counts as empty, since most of
 * them have only options; a type that is missing because of it is reported by name.
 */
final class Descriptors {
  private static final Map<String, FileDescriptor> KNOWN = new HashMap<>();

  static {
    List<FileDescriptor> own =
        List.of(
            DescriptorProtos.getDescriptor(),
            AnyProto.getDescriptor(),
            ApiProto.getDescriptor(),
            DurationProto.getDescriptor(),
            EmptyProto.getDescriptor(),
            FieldMaskProto.getDescriptor(),
            SourceContextProto.getDescriptor(),
            StructProto.getDescriptor(),
            TimestampProto.getDescriptor(),
            TypeProto.getDescriptor(),
            WrappersProto.getDescriptor());
    own.forEach(file -> KNOWN.put(file.getName(), file));
    String number = "int32";
    know("google/type/date.proto", "google.type", "Date", number, "year", number, "month", number, "day");
    know(
        "google/type/timeofday.proto", "google.type", "TimeOfDay",
        number, "hours", number, "minutes", number, "seconds", number, "nanos");
    know(
        "confluent/type/decimal.proto", "confluent.type", "Decimal",
        "bytes", "value", "uint32", "precision", number, "scale");
    FileDescriptorProto moved =
        FileDescriptorProto.newBuilder()
            .setName("confluent/types/decimal.proto")
            .setSyntax("proto3")
            .addDependency("confluent/type/decimal.proto")
            .addPublicDependency(0)
            .build();
    KNOWN.put(moved.getName(), built(moved, KNOWN.get("confluent/type/decimal.proto")));
  }

  private Descriptors() {}

  private static void know(String name, String within, String message, String... fields) {
    DescriptorProtos.DescriptorProto.Builder made = DescriptorProtos.DescriptorProto.newBuilder().setName(message);
    for (int index = 0; index < fields.length; index += 2) {
      made.addField(
          FieldDescriptorProto.newBuilder()
              .setName(fields[index + 1])
              .setNumber(index / 2 + 1)
              .setLabel(FieldDescriptorProto.Label.LABEL_OPTIONAL)
              .setType(FieldDescriptorProto.Type.valueOf("TYPE_" + fields[index].toUpperCase(java.util.Locale.ROOT))));
    }
    FileDescriptorProto file =
        FileDescriptorProto.newBuilder()
            .setName(name)
            .setPackage(within)
            .setSyntax("proto3")
            .addMessageType(made)
            .build();
    KNOWN.put(name, built(file));
  }

  private static FileDescriptor built(FileDescriptorProto file, FileDescriptor... imports) {
    try {
      return FileDescriptor.buildFrom(file, imports);
    } catch (DescriptorValidationException problem) {
      throw new Unreadable("cannot be read as a Protobuf schema (" + problem.getMessage() + ")");
    }
  }

  /**
   * The message of a name in an encoded set of file descriptors.
   *
   * @throws Unreadable the set has no such message, or cannot be read
   */
  static Descriptor message(byte[] set, String name) {
    try {
      FileDescriptorSet read = FileDescriptorSet.parseFrom(set);
      Map<String, FileDescriptorProto> files = new HashMap<>();
      read.getFileList().forEach(file -> files.put(file.getName(), file));
      Map<String, FileDescriptor> made = new HashMap<>();
      for (FileDescriptorProto file : read.getFileList()) {
        Descriptor found = message(linked(file, files, made, new LinkedHashSet<>()), name);
        if (found != null) {
          return found;
        }
      }
    } catch (InvalidProtocolBufferException problem) {
      throw new Unreadable("the descriptors cannot be read");
    }
    throw new Unreadable("the descriptors hold no message " + name);
  }

  /** The message of a full name in a file; null if there is none. */
  static Descriptor message(FileDescriptor file, String name) {
    String within = file.getPackage();
    if (!within.isEmpty() && !name.startsWith(within + ".")) {
      return null;
    }
    String[] parts = (within.isEmpty() ? name : name.substring(within.length() + 1)).split("\\.");
    Descriptor found = file.findMessageTypeByName(parts[0]);
    for (int index = 1; index < parts.length && found != null; index++) {
      found = found.findNestedTypeByName(parts[index]);
    }
    return found;
  }

  /**
   * A file linked with its imports.
   *
   * @param files other files, by the name under which they are imported
   * @throws Unreadable a type is missing
   */
  static FileDescriptor linked(FileDescriptorProto file, Map<String, FileDescriptorProto> files) {
    return linked(file, files, new HashMap<>(), new LinkedHashSet<>());
  }

  private static FileDescriptor linked(
      FileDescriptorProto file,
      Map<String, FileDescriptorProto> files,
      Map<String, FileDescriptor> made,
      Set<String> within) {
    FileDescriptor known = made.get(file.getName());
    if (known != null) {
      return known;
    }
    if (!within.add(file.getName())) {
      throw new Unreadable("cannot be read as a Protobuf schema (" + file.getName() + " imports itself)");
    }
    FileDescriptor[] imports =
        file.getDependencyList().stream()
            .map(name -> imported(name, files, made, within))
            .toArray(FileDescriptor[]::new);
    within.remove(file.getName());
    FileDescriptor built = built(file, imports);
    made.put(file.getName(), built);
    return built;
  }

  private static FileDescriptor imported(
      String name, Map<String, FileDescriptorProto> files, Map<String, FileDescriptor> made, Set<String> within) {
    FileDescriptor own = KNOWN.get(name);
    if (own != null) {
      return own;
    }
    FileDescriptorProto written = files.get(name);
    return written != null
        ? linked(written, files, made, within)
        : made.computeIfAbsent(name, missing -> built(FileDescriptorProto.newBuilder().setName(missing).build()));
  }
}
