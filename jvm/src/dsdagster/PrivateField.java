package dsdagster;

import java.lang.reflect.Field;

/** Fields of Spark's and Kafka's classes that have no method. Their names hold for the pinned version only. */
public final class PrivateField {
  private PrivateField() {}

  /** A field of a class, readable and writable; the caller says what it means that there is none. */
  public static Field of(Class<?> owner, String name) throws NoSuchFieldException {
    Field field = owner.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
