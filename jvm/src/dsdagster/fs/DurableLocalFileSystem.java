package dsdagster.fs;

import java.io.File;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * A {@link NioLocalFileSystem} whose files survive a power failure once they are closed and have their final names: a
 * file is forced to disk when it is closed, a folder when a name appears in it.
 *
 * <p>What a batch N relies on:
 *
 * <ol>
 *   <li>the plan of N (offset log) is durable before its rows are read, hence before a sink commits N: after a power
 *       failure N is replayed with the same offsets, and a sink that has it recognises it;
 *   <li>the state of N is durable before N is recorded as done (commit log), so that no finished batch lacks its
 *       state;
 *   <li>this record is durable before N+1 is planned, so that the state which N+1 starts from exists when a sink has
 *       N+1.
 * </ol>
 *
 * <p>Spark writes these files one after the other and waits for each, so forcing every file as it is closed keeps that
 * order. Files under temporary names are forced, their names are not, since they are renamed. Checksum files are not
 * written: a torn one would make a whole file unreadable, and forcing it costs as much as forcing the file.
 */
public class DurableLocalFileSystem extends NioLocalFileSystem {
  private static final String TEMPORARY = ".tmp";

  public DurableLocalFileSystem() {
    this(new DurableRaw());
  }

  protected DurableLocalFileSystem(DurableRaw raw) {
    super(raw);
    setWriteChecksum(false);
  }

  /** The file system below the checksums. */
  public static class DurableRaw extends Raw {
    @Override
    protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission permission)
        throws IOException {
      File file = pathToFile(path);
      boolean isNamed = !append && !(file.getName().startsWith(".") && file.getName().endsWith(TEMPORARY));
      return new Forced(super.createOutputStreamWithMode(path, append, permission), file, isNamed);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      boolean renamed = super.rename(from, to);
      if (renamed) {
        forceFolder(pathToFile(to).getParentFile());
      }
      return renamed;
    }

    @Override
    protected boolean mkOneDirWithMode(Path path, File folder, FsPermission permission) throws IOException {
      boolean made = super.mkOneDirWithMode(path, folder, permission);
      if (made) {
        forceFolder(folder.getAbsoluteFile().getParentFile());
      }
      return made;
    }

    /** Forces the content of a file to disk; called before the file is closed. */
    protected void forceFile(File file, Syncable open) throws IOException {
      open.hsync();
    }

    /** Forces the names in a folder to disk. */
    protected void forceFolder(File folder) throws IOException {
      try (FileChannel names = FileChannel.open(folder.toPath(), StandardOpenOption.READ)) {
        names.force(true);
      }
    }

    private final class Forced extends FilterOutputStream implements Syncable {
      private final File file;
      private final boolean isNamed;
      private boolean isClosed;

      Forced(OutputStream out, File file, boolean isNamed) {
        super(out);
        this.file = file;
        this.isNamed = isNamed;
      }

      @Override
      public void write(byte[] bytes, int from, int length) throws IOException {
        out.write(bytes, from, length);
      }

      @Override
      public void hflush() throws IOException {
        ((Syncable) out).hflush();
      }

      @Override
      public void hsync() throws IOException {
        forceFile(file, (Syncable) out);
      }

      @Override
      public void close() throws IOException {
        if (isClosed) {
          return;
        }
        isClosed = true;
        try {
          hsync();
        } finally {
          out.close();
        }
        if (isNamed) {
          forceFolder(file.getAbsoluteFile().getParentFile());
        }
      }
    }
  }
}
