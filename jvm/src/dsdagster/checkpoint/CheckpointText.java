package dsdagster.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$;

/** Our own small text files next to Spark's files in a checkpoint, on any file system Hadoop knows. */
public final class CheckpointText {
  private CheckpointText() {}

  /** The text; null if there is no such file. */
  public static String read(SparkSession session, String checkpoint, String name) {
    Path path = new Path(checkpoint, name);
    try (InputStream in = path.getFileSystem(session.sessionState().newHadoopConf()).open(path)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (FileNotFoundException fresh) {
      return null;
    } catch (IOException failure) {
      throw BatchLog.unreadable(name + " cannot be read", failure);
    }
  }

  /** Replaces the whole text; creates the folder if it is missing. */
  public static void write(SparkSession session, String checkpoint, String name, String text) {
    Configuration hadoop = session.sessionState().newHadoopConf();
    Path folder = new Path(checkpoint);
    try {
      CheckpointFileManager files = CheckpointFileManager$.MODULE$.create(folder, hadoop);
      files.mkdirs(folder);
      try (FSDataOutputStream out = files.createAtomic(new Path(folder, name), true)) {
        out.write(text.getBytes(StandardCharsets.UTF_8));
      }
    } catch (IOException failure) {
      throw BatchLog.unreadable(name + " cannot be written", failure);
    }
  }
}
