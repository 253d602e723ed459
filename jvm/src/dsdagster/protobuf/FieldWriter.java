package dsdagster.protobuf;

import com.google.protobuf.CodedOutputStream;
import java.io.IOException;

/** Writes one value, as Spark holds it, with the number of its field; never called with null. */
interface FieldWriter {
  void write(Object value, CodedOutputStream out) throws IOException;
}
