package dsdagster.cluster;

import dsdagster.OperatorFault;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.Serializable;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarFile;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.package$;

/** What the hosts of a cluster's executors have: versions, files of the driver, a Python. */
public final class Probe {
  private static final String KEY = "Ds-Source-Key";
  private static final int PYTHON_SECONDS = 60;

  private Probe() {}

  /**
   * What one executor has.
   *
   * @param host as Spark names it, with the executor's id
   * @param spark version of Spark
   * @param jar key of the sources of the operator jar that is loaded; empty without one
   * @param seesFile whether it sees the driver's file
   * @param python first line that Python wrote, empty when none was asked for
   * @param problem why there is no such line
   */
  public record Report(
      String host, String spark, String jar, boolean seesFile, String python, String problem)
      implements Serializable {}

  /**
   * A report of every executor; those that did not answer have none.
   *
   * @param file that the driver has made
   * @param command Python and its arguments; empty: none is run
   */
  public static List<Report> executors(SparkContext context, String file, List<String> command) {
    ArrayList<String> copied = new ArrayList<>(command);
    return new ArrayList<>(EveryExecutor.run(context, () -> here(file, copied)).byExecutor().values());
  }

  /** The report of this JVM. */
  public static Report here(String file, List<String> command) {
    String python = "";
    String problem = "";
    try {
      python = command.isEmpty() ? "" : firstLine(command);
    } catch (IOException cannot) {
      problem = String.valueOf(cannot.getMessage());
    }
    SparkEnv env = SparkEnv.get();
    String host = env.blockManager().blockManagerId().host() + " (executor " + env.executorId() + ")";
    String spark = package$.MODULE$.SPARK_VERSION();
    return new Report(host, spark, jarKey(), Files.exists(Path.of(file)), python, problem);
  }

  private static String firstLine(List<String> command) throws IOException {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    try (BufferedReader output = process.inputReader()) {
      if (!process.waitFor(PYTHON_SECONDS, TimeUnit.SECONDS)) {
        throw new IOException("it did not end within " + PYTHON_SECONDS + " s");
      }
      List<String> lines = output.lines().toList();
      if (process.exitValue() == 0 && !lines.isEmpty()) {
        return lines.get(0);
      }
      throw new IOException(lines.isEmpty() ? "it wrote nothing" : lines.get(lines.size() - 1));
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", stopped);
    } finally {
      process.destroy();
    }
  }

  /** Of a class that every version has: a host's own jar comes before the one that the driver sends. */
  private static String jarKey() {
    try {
      Path place = Path.of(OperatorFault.class.getProtectionDomain().getCodeSource().getLocation().toURI());
      try (JarFile jar = new JarFile(place.toFile())) {
        String key = jar.getManifest().getMainAttributes().getValue(KEY);
        return key == null ? "" : key;
      }
    } catch (IOException | URISyntaxException none) {
      return "";
    }
  }
}
