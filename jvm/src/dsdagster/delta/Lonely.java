package dsdagster.delta;

import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.when;

import dsdagster.Expressions;
import dsdagster.Keyed;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Outer rows of one side of a join, if a condition over both sides decides which pairs match.
 *
 * <p>Input columns: {@code l} struct, {@code r} struct, {@code w} long: all matching pairs, and the side's own rows,
 * each with null for the other side. Output: the same columns: the pairs, and own rows while they are in no pair. Rows
 * without a row of the side are passed through.
 */
public final class Lonely {
  private Lonely() {}

  /** @param isLeft whether the outer side is the left one */
  public static Dataset<Row> apply(Dataset<Row> input, boolean isLeft) {
    StructType left = (StructType) input.schema().apply("l").dataType();
    StructType right = (StructType) input.schema().apply("r").dataType();
    Column packedLeft = Expressions.pack(input.col("l"), left);
    Column packedRight = Expressions.pack(input.col("r"), right);
    Column own = isLeft ? packedLeft : packedRight;
    Column other = isLeft ? packedRight : packedLeft;
    Dataset<Row> packed =
        input.select(
            own.isNotNull().as("counted"),
            when(own.isNull(), other).otherwise(own).as("row"),
            when(own.isNull(), lit(null).cast(DataTypes.BinaryType)).otherwise(other).as("other"),
            input.col(Keyed.WEIGHT));
    StructType output =
        new StructType()
            .add("l", DataTypes.BinaryType)
            .add("r", DataTypes.BinaryType)
            .add(Keyed.WEIGHT, DataTypes.LongType);
    Dataset<Row> made =
        Keyed.grouped(packed, 2)
            .transformWithState(
                new LonelyProcessor(isLeft), TimeMode.None(), OutputMode.Append(), Encoders.row(output));
    return made.select(
        Expressions.unpack(made.col("l"), left).as("l"),
        Expressions.unpack(made.col("r"), right).as("r"),
        made.col(Keyed.WEIGHT));
  }
}
