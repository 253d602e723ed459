package dsdagster.registry;

/** Why a record cannot be decoded: names places and types, never a value. Costs no stack trace. */
public final class Unreadable extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public Unreadable(String reason) {
    super(reason, null, false, false);
  }

  /** The same inside of a column or field. */
  public Unreadable inside(String name) {
    return new Unreadable(name + ": " + getMessage());
  }
}
