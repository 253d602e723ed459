package dsdagster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;

/**
 * A failure of an operator that Python maps back to a named condition.
 *
 * <p>Rule: the text always begins with {@code [ds:CONDITION]}, whatever Spark wraps around it, so that the
 * classifier needs no exception classes.
 */
public final class OperatorFault extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public OperatorFault(String condition, String message) {
    this(condition, message, null);
  }

  public OperatorFault(String condition, String message, Throwable cause) {
    super("[ds:" + condition + "] " + message, cause);
  }

  /** A fault with the parameters of its condition's message. */
  public static OperatorFault of(String condition, Map<String, ?> parameters) {
    try {
      return new OperatorFault(condition, MAPPER.writeValueAsString(parameters));
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
