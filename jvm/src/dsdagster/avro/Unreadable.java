package dsdagster.avro;

/** Why a record cannot be decoded: names places and types, never a value. Costs no stack trace. */
final class Unreadable extends RuntimeException {
  private static final long serialVersionUID = 1L;

  Unreadable(String reason) {
    super(reason, null, false, false);
  }

  /** The same inside of a column or field. */
  Unreadable inside(String name) {
    return new Unreadable(name + ": " + getMessage());
  }
}
