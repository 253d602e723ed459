package dsdagster.planning.keyed;

import dsdagster.delta.Folding;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import scala.collection.immutable.Seq;

/** The work of {@link FoldStep} on one partition, whose rows of a key follow one another. */
final class FoldTask implements FlatMapFunction<Iterator<InternalRow>, InternalRow> {
  private static final long serialVersionUID = 1L;
  private static final int COLUMNS = 2;

  private final Seq<Expression> keys;
  private final int row;
  private final int weight;

  /** {@code row} and {@code weight}: their columns. */
  FoldTask(Seq<Expression> keys, int row, int weight) {
    this.keys = keys;
    this.row = row;
    this.weight = weight;
  }

  @Override
  public Iterator<InternalRow> call(Iterator<InternalRow> rows) {
    return new Folded(rows);
  }

  private final class Folded implements Iterator<InternalRow> {
    private final Iterator<InternalRow> rows;
    private final UnsafeProjection keyOf = UnsafeProjection.create(keys);
    private final UnsafeRowWriter writer = new UnsafeRowWriter(COLUMNS);
    private final Folding folding = new Folding();
    /** The first row of the next key, null behind the last one. */
    private InternalRow next;
    private boolean isReady;

    Folded(Iterator<InternalRow> rows) {
      this.rows = rows;
      this.next = rows.hasNext() ? rows.next() : null;
    }

    @Override
    public boolean hasNext() {
      while (!isReady && next != null) {
        isReady = fold();
      }
      return isReady;
    }

    /** Reads the rows of the next key; returns whether it has changed. */
    private boolean fold() {
      UnsafeRow key = keyOf.apply(next).copy();
      folding.clear();
      do {
        folding.add(next.getBinary(row), next.getLong(weight));
        next = rows.hasNext() ? rows.next() : null;
      } while (next != null && keyOf.apply(next).equals(key));
      return folding.end();
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      isReady = false;
      writer.reset();
      writer.zeroOutNullBytes();
      writer.write(0, folding.row());
      writer.write(1, folding.isDelete());
      return writer.getRow();
    }
  }
}
