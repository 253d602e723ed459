package dsdagster.avro;

import java.io.IOException;
import org.apache.avro.io.Encoder;

/** Writes one value, as Spark holds it, by the registered schema. */
interface ValueWriter {
  void write(Object value, Encoder out) throws IOException;
}
