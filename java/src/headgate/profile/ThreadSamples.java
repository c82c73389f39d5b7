package headgate.profile;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.Map;

/**
 * Samples the stacks of all threads of this JVM.
 *
 * <p>One rule: it counts here, so that what leaves the JVM grows with the number of different stacks and not with that
 * of samples. It judges nothing.
 */
public final class ThreadSamples {
  private ThreadSamples() {}

  /**
   * Take samples, so many milliseconds apart. The thread that asks is not among them.
   *
   * @return a line for each stack that was seen: how often, the state of its thread, the thread's name, and the frames
   *     from the outermost to the innermost with ";" between them; with tabs between the four
   */
  public static String take(int samples, long intervalMs) throws InterruptedException {
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long self = Thread.currentThread().getId();
    Map<String, int[]> counts = new HashMap<>();
    for (int sample = 0; sample < samples; sample++) {
      if (sample > 0) {
        Thread.sleep(intervalMs);
      }
      for (ThreadInfo info : threads.dumpAllThreads(false, false)) {
        if (info != null && info.getThreadId() != self) {
          counts.computeIfAbsent(stack(info), key -> new int[1])[0]++;
        }
      }
    }
    StringBuilder text = new StringBuilder();
    counts.forEach((stack, count) -> text.append(count[0]).append('\t').append(stack).append('\n'));
    return text.toString();
  }

  private static String stack(ThreadInfo info) {
    StringBuilder text = new StringBuilder(info.getThreadState().name());
    text.append('\t').append(info.getThreadName().replaceAll("\\p{Cntrl}", " ")).append('\t');
    StackTraceElement[] frames = info.getStackTrace();
    for (int place = frames.length - 1; place >= 0; place--) {
      StackTraceElement frame = frames[place];
      text.append(frame.getClassName()).append('.').append(frame.getMethodName());
      if (frame.getLineNumber() >= 0) {
        text.append(':').append(frame.getLineNumber());
      }
      text.append(place > 0 ? ";" : "");
    }
    return text.toString();
  }
}
