package dsdagster;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Columns that call a Java method on Spark's internal values: generated code calls it directly, so nothing is boxed,
 * converted or allocated as it would be for a user-defined function.
 *
 * <p>Rule: only this class and {@link Projections} use Spark's expression classes.
 */
public final class Expressions {
  private Expressions() {}

  /** {@code target.method(arguments)}; null if an argument is null. */
  public static Column call(Object target, String method, DataType type, boolean deterministic, Column... arguments) {
    return invoke(target, method, type, true, deterministic, arguments);
  }

  /** {@code target.method(arguments)}, whose arguments may be null. */
  public static Column callWithNulls(Object target, String method, DataType type, Column... arguments) {
    return invoke(target, method, type, false, true, arguments);
  }

  /** {@code target.method(arguments)}, a condition that depends on earlier rows; arguments may be null. */
  public static Column test(Object target, String method, Column... arguments) {
    return invoke(target, method, DataTypes.BooleanType, false, false, arguments);
  }

  private static Column invoke(
      Object target, String method, DataType type, boolean skipsNulls, boolean deterministic, Column... arguments) {
    List<Expression> inputs = new ArrayList<>(arguments.length);
    for (Column argument : arguments) {
      inputs.add(ExpressionUtils.expression(argument));
    }
    Expression receiver = Literal$.MODULE$.fromObject(target, new ObjectType(target.getClass()));
    return ExpressionUtils.column(
        new Invoke(
            receiver,
            method,
            type,
            CollectionConverters.asScala(inputs.iterator()).toSeq(),
            CollectionConverters.asScala(new ArrayList<org.apache.spark.sql.types.AbstractDataType>().iterator()).toSeq(),
            skipsNulls,
            true,
            deterministic));
  }

  /** A null of a type (as JSON) that the optimizer does not recognize as null and does not push predicates below. */
  public static Column opaqueNull(String typeJson) {
    return call(new Nothing(), "nothing", DataType.fromJson(typeJson), false);
  }

  /** The bytes of a struct. */
  public static Column pack(Column struct, StructType type) {
    return call(new Packer(type), "pack", DataTypes.BinaryType, true, struct);
  }

  /** The struct of bytes that {@link #pack} made for the same type. */
  public static Column unpack(Column bytes, StructType type) {
    return call(new Unpacker(type.size()), "unpack", type, true, bytes);
  }

  /** Reads bytes of {@link #pack} as a row of ordinary values. For one task: it reuses a row. */
  public static Function<byte[], Row> reader(StructType type) {
    scala.Function1<Object, Object> converter = CatalystTypeConverters$.MODULE$.createToScalaConverter(type);
    UnsafeRow row = new UnsafeRow(type.size());
    return bytes -> {
      row.pointTo(bytes, bytes.length);
      return (Row) converter.apply(row);
    };
  }

  /** Writes a row of ordinary values as {@link #pack} does. For one task: it reuses a row. */
  public static Function<Row, byte[]> writer(StructType type) {
    scala.Function1<Object, Object> converter = CatalystTypeConverters$.MODULE$.createToCatalystConverter(type);
    UnsafeProjection projection = UnsafeProjection$.MODULE$.create(type);
    return row -> projection.apply((InternalRow) converter.apply(row)).copy().getBytes(); // reused row
  }

  /** Always null. */
  public static final class Nothing implements Serializable {
    private static final long serialVersionUID = 1L;

    public Object nothing() {
      return null;
    }

    @Override
    public String toString() {
      return "opaque";
    }
  }

  /** Struct to bytes; one instance per task. */
  public static final class Packer implements Serializable {
    private static final long serialVersionUID = 1L;
    private final StructType type;
    private transient UnsafeProjection projection;

    Packer(StructType type) {
      this.type = type;
    }

    public byte[] pack(InternalRow row) {
      if (row instanceof UnsafeRow) {
        return ((UnsafeRow) row).copy().getBytes();
      }
      if (projection == null) {
        projection = UnsafeProjection$.MODULE$.create(type);
      }
      return projection.apply(row).copy().getBytes(); // projections reuse rows
    }

    @Override
    public String toString() {
      return "packer";
    }
  }

  /** Bytes to struct. */
  public static final class Unpacker implements Serializable {
    private static final long serialVersionUID = 1L;
    private final int fields;

    Unpacker(int fields) {
      this.fields = fields;
    }

    public InternalRow unpack(byte[] bytes) {
      UnsafeRow row = new UnsafeRow(fields);
      row.pointTo(bytes, bytes.length);
      return row;
    }

    @Override
    public String toString() {
      return "unpacker";
    }
  }
}
