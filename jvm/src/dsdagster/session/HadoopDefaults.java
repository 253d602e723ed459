package dsdagster.session;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;

/**
 * Takes the defaults of YARN and MapReduce out of a Hadoop configuration, which Spark copies and serializes for every
 * stateful step of every batch: they are two thirds of it. What a user has set stays.
 */
public final class HadoopDefaults {
  private static final Set<String> UNUSED = Set.of("mapred-default.xml", "yarn-default.xml");

  private HadoopDefaults() {}

  /** Remove them; how many they were. */
  public static int drop(Configuration configuration) {
    new JobConf(); // loads the files: they come with this class, into every configuration there is
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
