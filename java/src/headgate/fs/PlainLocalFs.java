package headgate.fs;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.Path;

/**
 * {@link PlainLocalFileSystem} for Hadoop's {@code FileContext}, which Spark writes its checkpoint directories with.
 *
 * <p>One rule: a rename is one step. With overwrite the old file is replaced; without, the rename fails if the name is
 * taken, whoever took it and whenever. The original looks first, deletes, and then renames, and runs {@code readlink}
 * for every look. Set as {@code fs.AbstractFileSystem.file.impl}.
 */
public final class PlainLocalFs extends DelegateToFileSystem {
  /** The signature by which Hadoop makes a file system. */
  public PlainLocalFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(FsConstants.LOCAL_FS_URI, new PlainLocalFileSystem(), conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
  }

  @Override
  public int getUriDefaultPort() {
    return -1;
  }

  /** Any name is a good one, also with a colon in it. */
  @Override
  public boolean isValidName(String name) {
    return true;
  }

  @Override
  public void renameInternal(Path src, Path dst, boolean overwrite) throws IOException {
    java.nio.file.Path from = local(src);
    java.nio.file.Path to = local(dst);
    if (from.equals(to)) {
      throw new FileAlreadyExistsException("The source " + src + " is the destination");
    }
    try {
      if (overwrite) {
        Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
      } else {
        moveToFreeName(from, to);
      }
      // One that Hadoop's own file system left would not fit the new file.
      Files.deleteIfExists(to.resolveSibling("." + to.getFileName() + ".crc"));
    } catch (java.nio.file.FileAlreadyExistsException taken) {
      // Spark knows Hadoop's exceptions by their types.
      throw new FileAlreadyExistsException("Rename destination " + dst + " already exists");
    } catch (NoSuchFileException missing) {
      throw (IOException) new FileNotFoundException(missing.getMessage()).initCause(missing);
    }
  }

  private static void moveToFreeName(java.nio.file.Path from, java.nio.file.Path to) throws IOException {
    if (linked(from, to)) {
      // A crash before this leaves both names, and Spark ignores the old one.
      Files.delete(from);
      return;
    }
    if (Files.exists(to, LinkOption.NOFOLLOW_LINKS)) {
      throw new java.nio.file.FileAlreadyExistsException(to.toString());
    }
    Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
  }

  /** link(2) fails on a name that is taken, as rename(2) does not. False where there are no hard links. */
  private static boolean linked(java.nio.file.Path from, java.nio.file.Path to) throws IOException {
    if (Files.isDirectory(from, LinkOption.NOFOLLOW_LINKS)) {
      return false;
    }
    try {
      Files.createLink(to, from);
      return true;
    } catch (java.nio.file.FileAlreadyExistsException | NoSuchFileException answer) {
      throw answer;
    } catch (UnsupportedOperationException | FileSystemException unlinkable) {
      return false;
    }
  }

  private java.nio.file.Path local(Path path) {
    checkPath(path);
    return ((PlainLocalFileSystem) fsImpl).pathToFile(path).toPath();
  }
}
