package dsdagster.record;

import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Fails the batch for a record that cannot be decoded, with its position and the reason, never with its content. */
public final class BadRecord implements Serializable {
  private static final long serialVersionUID = 1L;
  private final String entity;
  private final String relation;

  private BadRecord(String entity, String relation) {
    this.entity = entity;
    this.relation = relation;
  }

  /** A condition that fails whenever it is evaluated; its arguments are texts. */
  public static Column column(String entity, String relation, Column partition, Column position, Column reason) {
    BadRecord fault = new BadRecord(entity, relation);
    return Expressions.callWithNulls(fault, "fail", DataTypes.BooleanType, partition, position, reason);
  }

  public boolean fail(UTF8String partition, UTF8String position, UTF8String reason) {
    Map<String, String> said = new LinkedHashMap<>();
    said.put("entity", entity);
    said.put("relation", relation);
    said.put("partition", String.valueOf(partition));
    said.put("position", String.valueOf(position));
    said.put("reason", String.valueOf(reason));
    throw OperatorFault.of("BAD_RECORD", said);
  }

  @Override
  public String toString() {
    return "bad_record";
  }
}
