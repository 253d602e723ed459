package dsdagster;

/** Where the rows of a key of a keyed step are, in a batch, before Spark exchanges and sorts them. */
public enum KeyPlace {
  /** In any tasks. */
  ANYWHERE,
  /** In one task: the step below has made them of the rows of one of its own keys. */
  ONE_TASK,
  /** One behind the other in a task. */
  ADJACENT,
  /** In the partition of a key with the same values, where the state of the key is. */
  IN_PARTITION,
  /** In this partition, one behind the other. */
  IN_PLACE;

  /** Whether Spark need not exchange the rows of a step with state. */
  public boolean isOfState() {
    return this == IN_PARTITION || this == IN_PLACE;
  }

  /** Whether Spark need not sort the rows. */
  public boolean isSorted() {
    return this == ADJACENT || this == IN_PLACE;
  }

  /** A processor of a keyed step that knows it. */
  public interface Known {
    KeyPlace place();
  }
}
