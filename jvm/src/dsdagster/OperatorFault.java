package dsdagster;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;

/**
 * A failure of an operator that Python maps back to a named condition.
 *
 * <p>Rule: the text always begins with its envelope, {@code [ds:CONDITION] {"parameter": …}}, whatever Spark puts
 * around it, so that the classifier needs neither exception classes nor the wording of messages.
 */
public final class OperatorFault extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  /** A fault whose message needs no parameters; {@code detail} says more about this case. */
  public OperatorFault(String condition, String detail) {
    this(condition, detail, null);
  }

  public OperatorFault(String condition, String detail, Throwable cause) {
    this(condition, Map.of("detail", String.valueOf(detail)), cause);
  }

  private OperatorFault(String condition, Map<String, ?> parameters, Throwable cause) {
    super("[ds:" + condition + "] " + json(parameters), cause);
  }

  /** A fault with the parameters of its condition's message. */
  public static OperatorFault of(String condition, Map<String, ?> parameters) {
    return new OperatorFault(condition, parameters, null);
  }

  private static String json(Map<String, ?> parameters) {
    try {
      return MAPPER.writeValueAsString(parameters);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
