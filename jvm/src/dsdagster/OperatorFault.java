package dsdagster;

/**
 * A failure of an operator that Python maps back to a named condition.
 *
 * <p>Rule: the text always begins with {@code [ds:CONDITION]}, whatever Spark wraps around it, so that the
 * classifier needs no exception classes.
 */
public final class OperatorFault extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public OperatorFault(String condition, String message) {
    this(condition, message, null);
  }

  public OperatorFault(String condition, String message, Throwable cause) {
    super("[ds:" + condition + "] " + message, cause);
  }
}
