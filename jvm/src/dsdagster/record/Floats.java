package dsdagster.record;

import dsdagster.Expressions;
import java.io.Serializable;
import java.nio.ByteBuffer;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;

/** Floating-point numbers as the big-endian bytes Kafka's own serializers write. */
public final class Floats implements Serializable {
  private static final long serialVersionUID = 1L;

  private Floats() {}

  /** Eight or four bytes to a DOUBLE or FLOAT; zero for another number of bytes. */
  public static Column read(Column bytes, boolean wide) {
    return wide
        ? Expressions.call(new Floats(), "toDouble", DataTypes.DoubleType, true, bytes)
        : Expressions.call(new Floats(), "toFloat", DataTypes.FloatType, true, bytes);
  }

  /** A DOUBLE or FLOAT to eight or four bytes. */
  public static Column write(Column value, boolean wide) {
    return Expressions.call(new Floats(), wide ? "ofDouble" : "ofFloat", DataTypes.BinaryType, true, value);
  }

  public double toDouble(byte[] bytes) {
    return bytes.length == Double.BYTES ? ByteBuffer.wrap(bytes).getDouble() : 0;
  }

  public float toFloat(byte[] bytes) {
    return bytes.length == Float.BYTES ? ByteBuffer.wrap(bytes).getFloat() : 0;
  }

  public byte[] ofDouble(double value) {
    return ByteBuffer.allocate(Double.BYTES).putDouble(value).array();
  }

  public byte[] ofFloat(float value) {
    return ByteBuffer.allocate(Float.BYTES).putFloat(value).array();
  }

  @Override
  public String toString() {
    return "floats";
  }
}
