package dsdagster.fs;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a checkpoint in a bucket, where a file appears as a whole when it is closed and nothing can be renamed
 * in one step. Set as {@code spark.sql.streaming.checkpointFileManagerClass}. Other file systems are used as Spark
 * does.
 *
 * <p>Rule: a file that must be new, such as the plan of a batch, is written with the condition that there is none
 * ({@code If-None-Match}), which the bucket checks and not the writer. Of two engines that plan one batch, the second
 * fails. A retry of a request whose answer was lost fails too: the batch then runs again from the log.
 */
public final class BucketCheckpointFiles extends FileSystemBasedCheckpointFileManager {
  private static final String SCHEME = "s3a";
  private static final String ONLY_NEW = "fs.option.create.conditional.overwrite";

  public BucketCheckpointFiles(Path path, Configuration hadoop) {
    super(path, hadoop);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwrites) {
    if (!SCHEME.equals(fs().getScheme())) {
      return super.createAtomic(path, overwrites);
    }
    try {
      FSDataOutputStreamBuilder<?, ?> file = fs().createFile(path).overwrite(true).recursive();
      return new WholeFile(path, (overwrites ? file : file.must(ONLY_NEW, true)).build());
    } catch (IOException failure) {
      throw raised(failure);
    }
  }

  /** Throws a checked exception that Spark's Scala does not declare. */
  @SuppressWarnings("unchecked")
  private static <T extends Throwable> RuntimeException raised(Throwable failure) throws T {
    throw (T) failure;
  }

  private static final class WholeFile extends CancellableFSDataOutputStream {
    private static final String REFUSED = "RemoteFileChangedException";
    private final Path path;
    private final FSDataOutputStream file;
    private boolean isEnded;

    WholeFile(Path path, FSDataOutputStream file) {
      super(file);
      this.path = path;
      this.file = file;
    }

    @Override
    public void close() throws IOException {
      if (isEnded) {
        return;
      }
      isEnded = true;
      try {
        file.close();
      } catch (IOException failure) {
        throw isRefused(failure) ? (IOException) new FileAlreadyExistsException(path.toString()).initCause(failure) : failure;
      }
    }

    @Override
    public void cancel() {
      if (!isEnded) {
        isEnded = true;
        file.abort();
      }
    }

    private static boolean isRefused(Throwable failure) {
      for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
        if (cause instanceof FileAlreadyExistsException || cause.getClass().getSimpleName().equals(REFUSED)) {
          return true;
        }
      }
      return false;
    }
  }
}
