package dsdagster;

/** Where the rows of a key of a keyed step are, in a batch, before Spark exchanges and sorts them. */
public enum KeyPlace {
  /** In any tasks. */
  ANYWHERE,
  /** In one task: the step below has made them of the rows of one of its own keys. */
  ONE_TASK,
  /** In one task, one behind the other. */
  ADJACENT,
  /** In the partition of a key with the same values, where the state of the key is. */
  IN_PARTITION;

  /** A processor of a keyed step that knows it. */
  public interface Known {
    KeyPlace place();
  }
}
