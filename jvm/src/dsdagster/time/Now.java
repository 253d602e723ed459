package dsdagster.time;

import java.time.Instant;
import java.util.concurrent.TimeUnit;

/** The clocks for time of day and elapsed time; replaced in tests. All values in microseconds. */
public interface Now {
  /** Microseconds since 1970, by the machine's clock. */
  long wall();

  /** Microseconds since an arbitrary start, never going back. */
  long steady();

  /** The machine's own clocks. */
  Now REAL =
      new Now() {
        @Override
        public long wall() {
          Instant now = Instant.now();
          return TimeUnit.SECONDS.toMicros(now.getEpochSecond()) + TimeUnit.NANOSECONDS.toMicros(now.getNano());
        }

        @Override
        public long steady() {
          return TimeUnit.NANOSECONDS.toMicros(System.nanoTime());
        }
      };

  /** The machine's own clocks, with the time of day ahead. */
  static Now ahead(long micros) {
    return new Now() {
      @Override
      public long wall() {
        return REAL.wall() + micros;
      }

      @Override
      public long steady() {
        return REAL.steady();
      }
    };
  }

  /** Clocks that always show the same moment. */
  static Now fixed(long micros) {
    return new Now() {
      @Override
      public long wall() {
        return micros;
      }

      @Override
      public long steady() {
        return micros;
      }
    };
  }
}
