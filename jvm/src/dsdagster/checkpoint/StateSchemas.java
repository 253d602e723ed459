package dsdagster.checkpoint;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker;
import org.apache.spark.sql.execution.streaming.state.StateSchemaCompatibilityChecker$;
import org.apache.spark.sql.execution.streaming.state.StateStoreColFamilySchema;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import scala.Option;

/** The columns of the state in a checkpoint, as Spark's own aggregates write them: one schema for each step. */
public final class StateSchemas {
  static final String STATE = "state";
  static final String FAMILY = "default";

  /** Column of a group's window or pane, see {@code ds_dagster/spark/records/columns.py}. */
  private static final String WINDOW = "__window";

  private static final String PANE = "__pane";

  private StateSchemas() {}

  /**
   * Whether a checkpoint keeps a group for each window, also of overlapping ones, as versions of this package before panes
   * wrote it. A checkpoint has one form for all of its steps.
   */
  public static boolean keepsEachWindow(SparkSession session, String checkpoint) {
    Configuration hadoop = session.sessionState().newHadoopConf();
    Path state = new Path(checkpoint, STATE);
    boolean hasWindows = false;
    for (int step : exists(state, hadoop) ? numbered(state, hadoop) : List.<Integer>of()) {
      StateStoreColFamilySchema schema = of(checkpoint, step, hadoop);
      List<String> group = schema == null ? List.of() : Arrays.asList(schema.keySchema().fieldNames());
      if (group.contains(PANE)) {
        return false;
      }
      hasWindows |= group.contains(WINDOW);
    }
    return hasWindows;
  }

  /** The state of a step; null if a checkpoint has none, or if the step is one of our operators, which have other files. */
  static StateStoreColFamilySchema of(String checkpoint, long step, Configuration hadoop) {
    StateStoreProviderId store = id(checkpoint, step, 0);
    if (!exists(StateSchemaCompatibilityChecker$.MODULE$.schemaFile(store.storeId().storeCheckpointLocation()), hadoop)) {
      return null;
    }
    StateSchemaCompatibilityChecker checker =
        new StateSchemaCompatibilityChecker(
            store, hadoop, StateSchemaCompatibilityChecker$.MODULE$.$lessinit$greater$default$3(), Option.empty(), false);
    return checker.readSchemaFile().head();
  }

  private static boolean exists(Path file, Configuration hadoop) {
    try {
      return file.getFileSystem(hadoop).exists(file);
    } catch (IOException failure) {
      throw BatchLog.unreadable(file + " cannot be read", failure);
    }
  }

  static StateStoreProviderId id(String checkpoint, long step, int part) {
    String place = new Path(checkpoint, STATE).toString();
    return new StateStoreProviderId(new StateStoreId(place, step, part, FAMILY), UUID.randomUUID());
  }

  /** The numbers of the folders of steps in the folder of a state, or of partitions in that of a step. */
  static List<Integer> numbered(Path folder, Configuration hadoop) {
    List<Integer> numbers = new ArrayList<>();
    try {
      for (FileStatus entry : folder.getFileSystem(hadoop).listStatus(folder)) {
        String name = entry.getPath().getName();
        if (entry.isDirectory() && name.chars().allMatch(Character::isDigit)) {
          numbers.add(Integer.parseInt(name));
        }
      }
    } catch (IOException failure) {
      throw BatchLog.unreadable("the state in " + folder + " cannot be listed", failure);
    }
    return numbers;
  }
}
