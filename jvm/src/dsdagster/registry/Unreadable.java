package dsdagster.registry;

/** The reason why a record cannot be decoded: places and types, never a value. Has no stack trace. */
public final class Unreadable extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public Unreadable(String reason) {
    super(reason, null, false, false);
  }

  /** The same reason, inside of a column or field. */
  public Unreadable inside(String name) {
    return new Unreadable(name + ": " + getMessage());
  }
}
