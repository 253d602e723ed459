package dsdagster.delta;

/** Which rows a join of changelogs shows. */
enum JoinKind {
  INNER(true, false, false),
  LEFT(true, true, false),
  FULL(true, true, true),
  SEMI(false, false, false),
  ANTI(false, true, false);

  /** Pairs are shown. */
  final boolean pairs;
  /** Left rows without partner are shown. */
  final boolean lonelyLeft;
  /** Right rows without partner are shown. */
  final boolean lonelyRight;

  JoinKind(boolean pairs, boolean lonelyLeft, boolean lonelyRight) {
    this.pairs = pairs;
    this.lonelyLeft = lonelyLeft;
    this.lonelyRight = lonelyRight;
  }
}
