package dsdagster.rowlog;

import com.fasterxml.jackson.databind.ObjectMapper;
import dsdagster.Expressions;
import dsdagster.OperatorFault;
import dsdagster.Projections;
import java.io.IOException;
import java.io.Serializable;
import java.util.IllegalFormatException;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.commons.lang3.SerializationUtils;
import org.apache.spark.SparkThrowable;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Computes several expressions over a row at once. If one fails, it returns the reason instead of failing the batch.
 *
 * <p>Rules: only failures caused by the row's own values are caught (casts, arithmetic, patterns that are data,
 * functions of the user); the reason names Spark's condition, never a value. The expressions are optimized and
 * compiled like a plan of their own.
 */
public final class Guard implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper MAPPER = new ObjectMapper();
  /** The SQLSTATE class of data exceptions: casts, arithmetic, patterns, indexes, texts of times. */
  private static final String DATA_EXCEPTION = "22";
  /**
   * Data exceptions for which Spark has another SQLSTATE: patterns that are data, two equal keys of a map, different
   * numbers of keys and values, ELEMENT of several elements.
   */
  private static final Pattern OF_THE_ROW =
      Pattern.compile(
          "INVALID_FORMAT\\.ESC_.*|INCONSISTENT_BEHAVIOR_CROSS_VERSION\\..*|DUPLICATED_MAP_KEY|USER_RAISED_EXCEPTION"
              + "|_LEGACY_ERROR_TEMP_2128");
  /** Package of exceptions of regular expressions that Spark does not wrap. */
  private static final String REGULAR_EXPRESSIONS = "java.util.regex.";
  private static final String PATTERN = "INVALID_PARAMETER_VALUE.PATTERN";
  private static final String GROUP = "INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX";

  /** Template that is never evaluated itself, see {@link Projections#keepsFailures}. */
  private final Projections columns;

  private final boolean keepsFailures;
  private transient Projections copy;
  private transient UnsafeProjection projection;

  private Guard(Projections columns) {
    this.columns = columns;
    keepsFailures = columns.keepsFailures();
  }

  /**
   * A struct of {@code result} (a struct of the columns' values; null if one fails) and {@code reason} (text; null for
   * a good row).
   *
   * @param row a struct of the fields of {@code rows}, in their order
   * @param rows type of that struct
   * @param columns named columns over fields of these names
   */
  public static Column column(SparkSession spark, Column row, StructType rows, List<Column> columns) {
    Dataset<Row> twin = spark.createDataFrame(spark.sparkContext().emptyRDD(classTag()), rows);
    Dataset<Row> made = twin.select(columns.toArray(new Column[0]));
    Guard target = new Guard(Projections.of(made));
    StructType type = new StructType().add("result", made.schema()).add("reason", DataTypes.StringType);
    return Expressions.call(target, "guard", type, false, row);
  }

  private static scala.reflect.ClassTag<Row> classTag() {
    return scala.reflect.ClassTag$.MODULE$.apply(Row.class);
  }

  /** Called by generated code. */
  public InternalRow guard(InternalRow row) {
    int partition = TaskContext.getPartitionId();
    if (projection == null) {
      copy = SerializationUtils.clone(columns);
      projection = copy.compiled(partition);
    }
    try {
      return new GenericInternalRow(new Object[] {projection.apply(copy.input(row, partition)).copy(), null});
    } catch (RuntimeException failure) {
      projection = keepsFailures ? null : projection;
      return new GenericInternalRow(new Object[] {null, UTF8String.fromString(reason(failure))});
    }
  }

  private static String reason(RuntimeException failure) {
    if (failure instanceof OperatorFault) {
      return ofOurs((OperatorFault) failure);
    }
    if (failure instanceof SparkThrowable) {
      return ofSpark((SparkThrowable) failure, failure);
    }
    if (failure instanceof IllegalFormatException) {
      return PATTERN;
    }
    StackTraceElement[] frames = failure.getStackTrace();
    if (frames.length > 0 && frames[0].getClassName().startsWith(REGULAR_EXPRESSIONS)) {
      return PATTERN;
    }
    throw failure;
  }

  private static String ofOurs(OperatorFault failure) {
    String text = failure.getMessage();
    if (text.startsWith("[ds:PATTERN_INVALID]")) {
      return PATTERN;
    }
    if (text.startsWith("[ds:REGEX_GROUP_MISSING]")) {
      return GROUP;
    }
    if (!text.startsWith("[ds:FUNCTION_FAILED]")) {
      throw failure;
    }
    try {
      var told = MAPPER.readTree(text.substring(text.indexOf('{')));
      return "the function " + told.get("function").asText() + " failed: " + told.get("reason").asText();
    } catch (IOException unreadable) {
      throw failure;
    }
  }

  private static String ofSpark(SparkThrowable failure, RuntimeException thrown) {
    String condition = failure.getCondition();
    String state = failure.getSqlState();
    boolean isData = state != null && state.startsWith(DATA_EXCEPTION);
    if (condition == null || !(isData || OF_THE_ROW.matcher(condition).matches())) {
      throw thrown;
    }
    String target = failure.getMessageParameters().get("targetType");
    String source = failure.getMessageParameters().get("sourceType");
    return target == null || source == null ? condition : condition + " from " + source + " to " + target;
  }

  @Override
  public String toString() {
    return "guard";
  }
}
