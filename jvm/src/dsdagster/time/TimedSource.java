package dsdagster.time;

import java.util.HashMap;
import java.util.Locale;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.AcceptsLatestSeenOffset;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A micro-batch source with a clock: it delegates to the inner source and reports every look for new data to the job's
 * clock. Options: {@code ds.inner} (format), {@code ds.job}, {@code ds.input}, {@code ds.guard=kafka} (open upstream
 * transactions hold time); all other options belong to the inner source.
 */
public final class TimedSource extends WrappedSource {
  private static final String OWN_PREFIX = "ds.";

  @Override
  public String shortName() {
    return "ds-timed";
  }

  @Override
  protected String format(CaseInsensitiveStringMap options) {
    return options.get("ds.inner");
  }

  @Override
  protected CaseInsensitiveStringMap passed(CaseInsensitiveStringMap options) {
    HashMap<String, String> passed = new HashMap<>(options.asCaseSensitiveMap());
    passed.keySet().removeIf(name -> name.toLowerCase(Locale.ROOT).startsWith(OWN_PREFIX));
    return new CaseInsensitiveStringMap(passed);
  }

  @Override
  protected MicroBatchStream stream(Scan inner, String checkpoint, CaseInsensitiveStringMap options) {
    JobClock clock = Clocks.of(options.get("ds.job"));
    String input = options.get("ds.input");
    clock.input(input);
    LogEnds guard = "kafka".equals(options.get("ds.guard")) ? LogEnds.kafka(passed(options)) : LogEnds.NONE;
    MicroBatchStream stream = inner.toMicroBatchStream(checkpoint);
    return stream instanceof AcceptsLatestSeenOffset
        ? new TimedStream.WithLatestSeen(stream, clock, input, guard)
        : new TimedStream(stream, clock, input, guard);
  }
}
