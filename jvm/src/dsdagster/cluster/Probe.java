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
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.package$;
import org.apache.spark.util.SerializableConfiguration;

/** Checks the hosts of a cluster's executors: versions, access to the driver's files, Python. */
public final class Probe {
  private static final String KEY = "Ds-Source-Key";
  private static final int PYTHON_SECONDS = 60;
  private static final String ADDRESS = "://";

  private Probe() {}

  /**
   * Report of one executor.
   *
   * @param host host in Spark's spelling, with the executor's id
   * @param spark version of Spark
   * @param jar key of the sources of the loaded operator jar; empty without one
   * @param seesFile whether it sees the driver's file; true without a file
   * @param python first line that Python wrote; empty if Python was not run
   * @param problem reason why Python wrote no line, or why the file cannot be looked for
   */
  public record Report(
      String host, String spark, String jar, boolean seesFile, String python, String problem)
      implements Serializable {}

  /**
   * A report of every executor that answered.
   *
   * @param file a file that the driver has made, a path of the host or the address of an object in a bucket; empty: none
   * @param command Python and its arguments; empty: Python is not run
   */
  public static List<Report> executors(SparkContext context, String file, List<String> command) {
    ArrayList<String> copied = new ArrayList<>(command);
    SerializableConfiguration hadoop = new SerializableConfiguration(context.hadoopConfiguration());
    return new ArrayList<>(
        EveryExecutor.run(context, () -> here(file, hadoop.value(), copied)).byExecutor().values());
  }

  /** The report of this JVM. */
  public static Report here(String file, Configuration hadoop, List<String> command) {
    String python = "";
    String problem = "";
    boolean sees = file.isEmpty();
    try {
      sees = sees || (file.contains(ADDRESS) ? isObject(file, hadoop) : Files.exists(Path.of(file)));
    } catch (IOException cannot) {
      problem = String.valueOf(cannot.getMessage());
    }
    try {
      python = command.isEmpty() ? "" : firstLine(command);
    } catch (IOException cannot) {
      problem = String.valueOf(cannot.getMessage());
    }
    SparkEnv env = SparkEnv.get();
    String host = env.blockManager().blockManagerId().host() + " (executor " + env.executorId() + ")";
    String spark = package$.MODULE$.SPARK_VERSION();
    return new Report(host, spark, jarKey(), sees, python, problem);
  }

  private static boolean isObject(String address, Configuration hadoop) throws IOException {
    org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(address);
    try (FileSystem bucket = FileSystem.newInstance(path.toUri(), hadoop)) {
      return bucket.exists(path);
    }
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

  /**
   * Key of the jar that a class of every version is loaded from: a jar of the host itself comes before the jar that the
   * driver sends.
   */
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
