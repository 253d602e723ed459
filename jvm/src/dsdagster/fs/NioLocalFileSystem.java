package dsdagster.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's checksummed local file system without child processes: permissions are set through java.nio where Hadoop
 * forks {@code chmod} several times per checkpoint file. Set as {@code spark.hadoop.fs.file.impl}.
 *
 * <p>Rule: only the way of setting permissions and owners differs from {@link LocalFileSystem}. The raw class must not
 * be configured itself: Hadoop casts the local file system to {@link LocalFileSystem}.
 */
public class NioLocalFileSystem extends LocalFileSystem {
  private static final int PERMISSION_LETTERS = 9;

  public NioLocalFileSystem() {
    this(new Raw());
  }

  protected NioLocalFileSystem(Raw raw) {
    super(raw);
  }

  /** The file system below the checksums. */
  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      // java.nio has no sticky bit; it has no effect on the files of one owner.
      String letters = permission.toString().replace('t', 'x').replace('T', '-');
      String last = letters.substring(letters.length() - PERMISSION_LETTERS);
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(last));
    }

    @Override
    public void setOwner(Path path, String user, String group) {
      // Files belong to the user who writes them; Hadoop's method forks chown.
    }
  }
}
