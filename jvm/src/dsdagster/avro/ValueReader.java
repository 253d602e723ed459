package dsdagster.avro;

import java.io.IOException;
import org.apache.avro.io.BinaryDecoder;

/** Reads one value of a writer's schema as Spark holds values of the declared type; null for a missing one. */
interface ValueReader {
  Object read(BinaryDecoder in) throws IOException;
}
