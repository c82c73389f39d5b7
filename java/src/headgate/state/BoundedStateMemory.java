package headgate.state;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.Iterator;
import scala.collection.mutable.HashMap;

/**
 * Keeps the memory of executors from growing with every snapshot of a RocksDB state store.
 *
 * <p>Spark remembers the files of each snapshot, for the day on which it deletes the snapshot, and forgets them then
 * alone. Headgate deletes snapshots itself, so that day never comes. Nothing else reads what is remembered, and what is
 * not remembered Spark reads from the snapshot: so it is forgotten here, every half minute.
 *
 * <p>Where Spark is built otherwise than expected, a warning says so and nothing is done. Set in {@code spark.plugins}.
 */
public final class BoundedStateMemory implements SparkPlugin {
  /** Milliseconds from one look to the next. */
  public static final String INTERVAL = "spark.headgate.stateMemory.intervalMs";

  private static final long INTERVAL_MS = 30_000;

  @Override
  public DriverPlugin driverPlugin() {
    return null;
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new Forgetter();
  }

  private static final class Forgetter implements ExecutorPlugin {
    private static final Logger LOG = LoggerFactory.getLogger(BoundedStateMemory.class);
    private static final String STATE = "org.apache.spark.sql.execution.streaming.state.";

    private final ScheduledExecutorService timer =
        Executors.newSingleThreadScheduledExecutor(
            work -> {
              Thread thread = new Thread(work, "headgate-state-memory");
              thread.setDaemon(true);
              return thread;
            });

    @Override
    public void init(PluginContext context, Map<String, String> extraConf) {
      long interval = context.conf().getLong(INTERVAL, INTERVAL_MS);
      timer.scheduleWithFixedDelay(this::forget, interval, interval, TimeUnit.MILLISECONDS);
    }

    @Override
    public void shutdown() {
      timer.shutdownNow();
    }

    private void forget() {
      try {
        for (Object provider : rocksDbProviders()) {
          Object database = value(provider, "RocksDBStateStoreProvider", "rocksDB");
          if (database != null) {
            Object files = value(database, "RocksDB", "fileManager");
            ((Map<?, ?>) value(files, "RocksDBFileManager", "versionToRocksDBFiles")).clear();
          }
        }
      } catch (ReflectiveOperationException | RuntimeException | LinkageError unexpected) {
        LOG.warn("the memory of state stores grows with each snapshot: this Spark is built otherwise", unexpected);
        timer.shutdown();
      }
    }

    private static List<Object> rocksDbProviders() throws ReflectiveOperationException {
      HashMap<?, ?> loaded = (HashMap<?, ?>) value(null, "StateStore$", "loadedProviders");
      Class<?> rocksDb = Class.forName(STATE + "RocksDBStateStoreProvider");
      List<Object> found = new ArrayList<>();
      synchronized (loaded) { // as Spark does
        Iterator<?> providers = loaded.valuesIterator();
        while (providers.hasNext()) {
          Object provider = providers.next();
          if (rocksDb.isInstance(provider)) {
            found.add(provider);
          }
        }
      }
      return found;
    }

    /** The field itself, since asking for a lazy value would make it. */
    private static Object value(Object of, String type, String name) throws ReflectiveOperationException {
      Field field = Class.forName(STATE + type).getDeclaredField(name);
      field.setAccessible(true);
      return field.get(of);
    }
  }
}
