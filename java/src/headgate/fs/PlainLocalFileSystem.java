package headgate.fs;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system without its helpers: no process is started and no checksum file is written.
 *
 * <p>Without Hadoop's native library the original runs {@code chmod} for each file and each directory it makes. Set as
 * {@code fs.file.impl}; {@link PlainLocalFs} is its other half.
 */
public final class PlainLocalFileSystem extends LocalFileSystem {
  public PlainLocalFileSystem() {
    super(new Raw());
  }

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      // The mode as a number, since the set of PosixFilePermission has no sticky bit.
      Files.setAttribute(pathToFile(path).toPath(), "unix:mode", (int) permission.toShort());
    }
  }
}
