package dsdagster.protobuf;

import com.google.protobuf.CodedInputStream;
import java.io.IOException;

/** Reads one value of a field, after its tag, as Spark holds values of the declared type. */
interface FieldReader {
  Object read(CodedInputStream in) throws IOException;
}
