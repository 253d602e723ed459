package dsdagster.registry;

import java.util.UUID;

/** Key of a schema in a registry: its id, or its GUID if a record's header has it. */
public final class SchemaKey {
  private final boolean isGuid;
  private final long high;
  private final long low;

  SchemaKey(boolean isGuid, long high, long low) {
    this.isGuid = isGuid;
    this.high = high;
    this.low = low;
  }

  public static SchemaKey ofId(int id) {
    return new SchemaKey(false, 0, id);
  }

  boolean is(boolean guid, long first, long second) {
    return isGuid == guid && high == first && low == second;
  }

  /** Path of the schema in the registry. */
  String path() {
    return isGuid ? "/schemas/guids/" + new UUID(high, low) : "/schemas/ids/" + (int) low;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof SchemaKey && ((SchemaKey) other).is(isGuid, high, low);
  }

  @Override
  public int hashCode() {
    return Long.hashCode(high * 31 + low);
  }

  /** Its name in messages: {@code schema 7}. */
  @Override
  public String toString() {
    return "schema " + (isGuid ? new UUID(high, low).toString() : Integer.toString((int) low));
  }
}
