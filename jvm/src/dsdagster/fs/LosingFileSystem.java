package dsdagster.fs;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Test hook: a disk whose power fails. It is {@link DurableLocalFileSystem} under the scheme {@code losing}. It
 * records what is forced instead of forcing it, fails from an armed step on, and then keeps only what was forced.
 *
 * <p>Rule: only what POSIX guarantees. Forcing a file keeps its content, forcing a folder keeps the names in it, each
 * as of the last time; a file with a kept name and without kept content is empty. All instances of one process share
 * one disk.
 */
public final class LosingFileSystem extends DurableLocalFileSystem {
  private static final Map<Object, byte[]> CONTENTS = new HashMap<>();
  private static final Map<Path, Map<String, Object>> NAMES = new HashMap<>();
  private static boolean forces = true;
  private static long steps;
  private static long last;

  public LosingFileSystem() {
    super(new Losing());
  }

  @Override
  public URI getUri() {
    return URI.create("losing:///");
  }

  @Override
  protected void checkPath(org.apache.hadoop.fs.Path path) {
    // local files are copied into it by their own URL
  }

  /** From now on {@code allowed} steps succeed, all later ones fail; {@code forced}: whether forcing has an effect. */
  public static synchronized void arm(long allowed, boolean forced) {
    steps = 0;
    last = allowed;
    forces = forced;
  }

  /** Whether the power has failed: there were more steps than allowed. */
  public static synchronized boolean isOff() {
    return steps > last;
  }

  /** Reduces a folder to what was forced; {@code names}: all names are kept. */
  public static synchronized void lose(String folder, boolean names) throws IOException {
    Path root = Path.of(folder);
    Map<Path, byte[]> kept = new TreeMap<>();
    if (names) {
      collectLive(root, kept);
    } else {
      collectForced(root, kept);
    }
    remove(root);
    for (Map.Entry<Path, byte[]> one : kept.entrySet()) {
      if (one.getValue() == null) {
        Files.createDirectories(one.getKey());
      } else {
        Files.write(one.getKey(), one.getValue());
      }
    }
    remember(root);
  }

  private static void collectForced(Path folder, Map<Path, byte[]> found) {
    found.put(folder, null);
    for (Map.Entry<String, Object> name : NAMES.getOrDefault(folder, Map.of()).entrySet()) {
      Path path = folder.resolve(name.getKey());
      if (name.getValue() instanceof Path) {
        collectForced(path, found);
      } else {
        found.put(path, CONTENTS.getOrDefault(name.getValue(), new byte[0]));
      }
    }
  }

  private static void collectLive(Path folder, Map<Path, byte[]> found) throws IOException {
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path path : all.toList()) {
        found.put(path, Files.isDirectory(path) ? null : CONTENTS.getOrDefault(key(path), new byte[0]));
      }
    }
  }

  private static void remove(Path folder) throws IOException {
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(path);
      }
    }
  }

  private static void remember(Path folder) throws IOException {
    try (Stream<Path> all = Files.walk(folder)) {
      for (Path path : all.toList()) {
        if (Files.isDirectory(path)) {
          keepNames(path);
        } else {
          CONTENTS.put(key(path), Files.readAllBytes(path));
        }
      }
    }
  }

  private static void keepNames(Path folder) throws IOException {
    Map<String, Object> names = new HashMap<>();
    try (Stream<Path> all = Files.list(folder)) {
      for (Path path : all.toList()) {
        names.put(path.getFileName().toString(), Files.isDirectory(path) ? path : key(path));
      }
    }
    NAMES.put(folder, names);
  }

  private static Object key(Path path) throws IOException {
    return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
  }

  private static synchronized void step() throws IOException {
    steps++;
    if (steps > last) {
      throw new IOException("the power is off");
    }
  }

  /** The file system below the checksums. */
  private static final class Losing extends DurableRaw {
    @Override
    public URI getUri() {
      return URI.create("losing:///");
    }

    @Override
    protected void checkPath(org.apache.hadoop.fs.Path path) {
      // as above
    }

    @Override
    protected OutputStream createOutputStreamWithMode(
        org.apache.hadoop.fs.Path path, boolean append, FsPermission permission) throws IOException {
      step();
      OutputStream made = super.createOutputStreamWithMode(path, append, permission);
      synchronized (LosingFileSystem.class) {
        if (!append) {
          CONTENTS.remove(key(pathToFile(path).toPath()));
        }
      }
      return made;
    }

    @Override
    public boolean rename(org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to) throws IOException {
      step();
      return super.rename(from, to);
    }

    @Override
    public boolean delete(org.apache.hadoop.fs.Path path, boolean recursive) throws IOException {
      step();
      return super.delete(path, recursive);
    }

    @Override
    protected boolean mkOneDirWithMode(org.apache.hadoop.fs.Path path, File folder, FsPermission permission)
        throws IOException {
      step();
      return super.mkOneDirWithMode(path, folder, permission);
    }

    @Override
    protected void forceFile(File file, Syncable open) throws IOException {
      step();
      synchronized (LosingFileSystem.class) {
        if (forces) {
          CONTENTS.put(key(file.toPath()), Files.readAllBytes(file.toPath()));
        }
      }
    }

    @Override
    protected void forceFolder(File folder) throws IOException {
      step();
      synchronized (LosingFileSystem.class) {
        if (forces) {
          keepNames(folder.toPath());
        }
      }
    }
  }
}
