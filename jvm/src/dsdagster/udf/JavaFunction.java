package dsdagster.udf;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A function of the user: a class with one public method {@code evaluate} (or {@code eval}), one instance per task.
 *
 * <p>Rules: if the argument of a parameter of a primitive type is null, the result is null without a call; other
 * parameters receive null. An exception of the method fails the batch, named by its class only, since its text may
 * have the user's data.
 */
public final class JavaFunction implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Set<String> NAMES = Set.of("evaluate", "eval");

  private final String function;
  private final String jar;
  private final String digest;
  private final String entry;
  private final StructType types;
  private final DataType result;
  private transient Method method;
  private transient Object instance;
  private transient Object[] values;
  private transient boolean[] primitive;

  private JavaFunction(String function, String jar, String digest, String entry, StructType types, DataType result) {
    this.function = function;
    this.jar = jar;
    this.digest = digest;
    this.entry = entry;
    this.types = types;
    this.result = result;
  }

  /**
   * {@code arguments}: a struct of {@code types}. The class is loaded here already, so that an unfit class is
   * reported.
   */
  public static Column column(
      String function, String jar, String digest, String entry, String types, String result, Column arguments) {
    StructType taken = (StructType) DataType.fromJson(types);
    DataType given = DataType.fromJson(result);
    JavaFunction made = new JavaFunction(function, jar, digest, entry, taken, given);
    made.open();
    return Expressions.callWithNulls(
        new JavaFunction(function, jar, digest, entry, taken, given), "call", given, arguments);
  }

  /** Called by generated code. */
  public Object call(InternalRow row) {
    if (method == null) {
      open();
    }
    for (int i = 0; i < values.length; i++) {
      values[i] = Conversions.read(row, i, types.fields()[i].dataType());
      if (values[i] == null && primitive[i]) {
        return null;
      }
    }
    try {
      return Conversions.write(method.invoke(instance, values), result);
    } catch (InvocationTargetException failure) {
      throw failed(failure.getCause());
    } catch (IllegalAccessException | RuntimeException failure) {
      throw failed(failure);
    }
  }

  private OperatorFault failed(Throwable cause) {
    return OperatorFault.of("FUNCTION_FAILED", Map.of("function", function, "reason", cause.getClass().getName()));
  }

  private void open() {
    Class<?> found = Classes.load(function, jar, digest, entry);
    Method chosen = chosen(found);
    try {
      instance = found.getConstructor().newInstance();
    } catch (ReflectiveOperationException | LinkageError failure) {
      throw Classes.unfit(function, entry, "its constructor without parameters is missing, not public or fails");
    }
    values = new Object[types.size()];
    primitive = new boolean[types.size()];
    for (int i = 0; i < primitive.length; i++) {
      primitive[i] = chosen.getParameterTypes()[i].isPrimitive();
    }
    method = chosen;
  }

  private Method chosen(Class<?> found) {
    if (!Modifier.isPublic(found.getModifiers())) {
      throw Classes.unfit(function, entry, "it is not public");
    }
    List<Method> fitting = new ArrayList<>();
    for (Method one : found.getMethods()) {
      if (NAMES.contains(one.getName()) && !one.isBridge() && fits(one)) {
        fitting.add(one);
      }
    }
    if (fitting.size() != 1) {
      String reason = fitting.isEmpty() ? "no public method evaluate takes and gives these types" : "several methods fit";
      throw Classes.unfit(function, entry, reason + " (result " + result.simpleString() + ")");
    }
    return fitting.get(0);
  }

  private boolean fits(Method one) {
    Class<?>[] declared = one.getParameterTypes();
    if (declared.length != types.size() || !Conversions.fits(one.getReturnType(), result)) {
      return false;
    }
    for (int i = 0; i < declared.length; i++) {
      if (!Conversions.fits(declared[i], types.fields()[i].dataType())) {
        return false;
      }
    }
    return true;
  }

  @Override
  public String toString() {
    return function;
  }
}
