package dsdagster.avro;

import dsdagster.registry.Unreadable;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Reads a writer's record into declared columns, field by field, without an intermediate record.
 *
 * <p>A column is the writer's field of its name; else the writer's field of an alias in the reader's schema; else the
 * reader's default; else null. Fields without a column are skipped.
 */
final class RecordReader {
  private final String[] names;
  private final int[] columns;
  private final ValueReader[] readers;
  private final Schema[] skipped;
  private final Object[] defaults;
  private final boolean[] missing;

  RecordReader(Schema written, Schema known, StructType wanted) {
    List<Schema.Field> fields = written.getFields();
    names = wanted.fieldNames();
    columns = new int[fields.size()];
    readers = new ValueReader[fields.size()];
    skipped = new Schema[fields.size()];
    defaults = new Object[names.length];
    missing = new boolean[names.length];
    Arrays.fill(columns, -1);
    for (int column = 0; column < names.length; column++) {
      connect(written, known == null ? null : known.getField(names[column]), wanted.fields()[column], column);
    }
    for (int index = 0; index < columns.length; index++) {
      skipped[index] = fields.get(index).schema();
    }
  }

  private void connect(Schema written, Schema.Field known, StructField wanted, int column) {
    Schema.Field field = writtenField(written, known, wanted.name());
    try {
      if (field != null) {
        columns[field.pos()] = column;
        readers[field.pos()] = Readers.of(field.schema(), known == null ? null : known.schema(), wanted.dataType());
      } else if (known != null && known.hasDefaultValue()) {
        defaults[column] = defaultOf(known, wanted);
      } else {
        missing[column] = true;
      }
    } catch (Unreadable problem) {
      throw problem.inside(wanted.name());
    }
  }

  private static Schema.Field writtenField(Schema written, Schema.Field known, String name) {
    Schema.Field field = written.getField(name);
    if (field == null && known != null) {
      for (String alias : known.aliases()) {
        field = field == null ? written.getField(alias) : field;
      }
    }
    return field;
  }

  /** The default of a field, encoded and then read like a value of a record. */
  private static Object defaultOf(Schema.Field known, StructField wanted) {
    try {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
      Object value = GenericData.get().getDefaultValue(known);
      new GenericDatumWriter<>(known.schema()).write(value, encoder);
      encoder.flush();
      BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(bytes.toByteArray(), null);
      return Readers.of(known.schema(), known.schema(), wanted.dataType()).read(decoder);
    } catch (IOException problem) {
      throw new Unreadable("its default cannot be read");
    }
  }

  int width() {
    return names.length;
  }

  /** Whether the writer's schema lacks the column and the reader's schema has no default for it. */
  boolean isMissing(int column) {
    return missing[column];
  }

  /** Reads one record into the first {@link #width} places. */
  void fill(BinaryDecoder in, Object[] values) throws IOException {
    System.arraycopy(defaults, 0, values, 0, defaults.length);
    for (int index = 0; index < columns.length; index++) {
      int column = columns[index];
      if (column < 0) {
        GenericDatumReader.skip(skipped[index], in);
        continue;
      }
      try {
        values[column] = readers[index].read(in);
      } catch (Unreadable problem) {
        throw problem.inside(names[column]);
      }
    }
  }
}
