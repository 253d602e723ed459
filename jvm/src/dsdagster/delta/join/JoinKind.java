package dsdagster.delta.join;

import dsdagster.delta.Lonely;

/** Which rows a join of changelogs shows. */
enum JoinKind {
  INNER(true, false, false, false, false),
  LEFT(true, true, false, false, false),
  FULL(true, true, true, false, false),
  /** Which pairs count is known only after the join, see {@link Lonely}. */
  LEFT_OWN(true, false, false, true, false),
  FULL_OWN(true, false, false, true, true),
  SEMI(false, false, false, false, false),
  ANTI(false, true, false, false, false);

  /** Pairs are shown. */
  final boolean pairs;
  /** Left rows without partner are shown. */
  final boolean lonelyLeft;
  /** Right rows without partner are shown. */
  final boolean lonelyRight;
  /** Every left row is emitted alone, in addition to its pairs. */
  final boolean ownLeft;
  /** Every right row is shown by itself. */
  final boolean ownRight;

  JoinKind(boolean pairs, boolean lonelyLeft, boolean lonelyRight, boolean ownLeft, boolean ownRight) {
    this.pairs = pairs;
    this.lonelyLeft = lonelyLeft;
    this.lonelyRight = lonelyRight;
    this.ownLeft = ownLeft;
    this.ownRight = ownRight;
  }

  /** How many rows each side has must be known. */
  boolean counts() {
    return lonelyLeft || lonelyRight || this == SEMI;
  }
}
