package dsdagster.delta.join;

import dsdagster.delta.Lonely;

/** Kinds of joins of changelogs, by the rows that they emit. */
enum JoinKind {
  INNER(true, false, false, false, false),
  LEFT(true, true, false, false, false),
  FULL(true, true, true, false, false),
  /** Left outer join whose matching pairs are decided after the join, see {@link Lonely}. */
  LEFT_OWN(true, false, false, true, false),
  FULL_OWN(true, false, false, true, true),
  SEMI(false, false, false, false, false),
  ANTI(false, true, false, false, false);

  /** Pairs are emitted. */
  final boolean pairs;
  /** Left rows without a partner are emitted. */
  final boolean lonelyLeft;
  /** Right rows without a partner are emitted. */
  final boolean lonelyRight;
  /** Every left row is emitted alone, in addition to its pairs. */
  final boolean ownLeft;
  /** Every right row is emitted alone, in addition to its pairs. */
  final boolean ownRight;

  JoinKind(boolean pairs, boolean lonelyLeft, boolean lonelyRight, boolean ownLeft, boolean ownRight) {
    this.pairs = pairs;
    this.lonelyLeft = lonelyLeft;
    this.lonelyRight = lonelyRight;
    this.ownLeft = ownLeft;
    this.ownRight = ownRight;
  }

  /** Whether the number of rows of each side has to be known. */
  boolean counts() {
    return lonelyLeft || lonelyRight || this == SEMI;
  }
}
