package dsdagster.record;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dsdagster.Expressions;
import dsdagster.OperatorFault;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Fails the batch for a record that cannot be decoded; says where it stands and why, never what is in it. */
public final class BadRecord implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private final String entity;
  private final String relation;

  private BadRecord(String entity, String relation) {
    this.entity = entity;
    this.relation = relation;
  }

  /** A condition that fails wherever it is evaluated; its parts are texts. */
  public static Column column(String entity, String relation, Column partition, Column position, Column reason) {
    BadRecord fault = new BadRecord(entity, relation);
    return Expressions.callWithNulls(fault, "fail", DataTypes.BooleanType, partition, position, reason);
  }

  public boolean fail(UTF8String partition, UTF8String position, UTF8String reason) {
    ObjectNode said = MAPPER.createObjectNode().put("entity", entity).put("relation", relation);
    said.put("partition", String.valueOf(partition)).put("position", String.valueOf(position));
    throw new OperatorFault("BAD_RECORD", said.put("reason", String.valueOf(reason)).toString());
  }

  @Override
  public String toString() {
    return "bad_record";
  }
}
