package dsdagster.session;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;

/**
 * Removes the defaults of YARN and MapReduce from a Hadoop configuration, which Spark copies and serializes for every
 * stateful step of every batch: they are two thirds of it. Settings of the user are kept.
 */
public final class HadoopDefaults {
  private static final Set<String> UNUSED = Set.of("mapred-default.xml", "yarn-default.xml");

  private HadoopDefaults() {}

  /** Removes them; returns their number. */
  public static int drop(Configuration configuration) {
    new JobConf(); // loads the files of defaults, which this class adds to every configuration
    List<String> unused = new ArrayList<>();
    for (Map.Entry<String, String> entry : configuration) {
      String[] sources = configuration.getPropertySources(entry.getKey());
      if (sources != null && sources.length > 0 && UNUSED.contains(sources[sources.length - 1])) {
        unused.add(entry.getKey());
      }
    }
    unused.forEach(configuration::unset);
    return unused.size();
  }
}
