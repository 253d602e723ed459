package dsdagster;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Lists that Python builds sixteen elements per call; only the first {@code size} of a call's elements are used. */
public final class Lists {
  private Lists() {}

  public static ArrayList<Object> of(
      int size,
      Object a, Object b, Object c, Object d, Object e, Object f, Object g, Object h,
      Object i, Object j, Object k, Object l, Object m, Object n, Object o, Object p) {
    List<Object> given = Arrays.asList(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
    return new ArrayList<>(given.subList(0, size));
  }

  public static void add(
      List<Object> list, int size,
      Object a, Object b, Object c, Object d, Object e, Object f, Object g, Object h,
      Object i, Object j, Object k, Object l, Object m, Object n, Object o, Object p) {
    list.addAll(of(size, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p));
  }
}
