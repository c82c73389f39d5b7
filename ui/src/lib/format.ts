/** Numbers with their units, as people read them. One rule: what is not known is a dash, never a zero. */

export const NONE = "–";
/** Between a number and its unit: they stay on one line. */
const GAP = "\u00a0";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

type Maybe = number | null | undefined;

function known(value: Maybe): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** Three digits at most behind which nobody looks: 4.12, 41.2, 412. */
function short(value: number): string {
  const size = Math.abs(value);
  return size >= 100 || Number.isInteger(value) ? whole.format(value) : value.toFixed(size >= 10 ? 1 : 2).replace(/\.?0+$/, "");
}

export function count(value: Maybe): string {
  return known(value) ? whole.format(value) : NONE;
}

/** A count that must be narrow: 12.3 k, 4.1 M. */
export function compact(value: Maybe): string {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size < 10_000) return whole.format(value);
  if (size < 1e6) return `${short(value / 1e3)}${GAP}k`;
  if (size < 1e9) return `${short(value / 1e6)}${GAP}M`;
  return `${short(value / 1e9)}${GAP}G`;
}

export function rate(value: Maybe): string {
  if (!known(value)) return NONE;
  return `${value > 0 && value < 10 ? short(value) : compact(Math.round(value))}${GAP}rows/s`;
}

export function bytes(value: Maybe): string {
  if (!known(value)) return NONE;
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < SIZES.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${short(rest)}${GAP}${SIZES[unit] ?? "B"}`;
}

export function percent(ratio: Maybe): string {
  return known(ratio) ? `${Math.round(ratio * 100)}${GAP}%` : NONE;
}

export function duration(ms: Maybe): string {
  if (!known(ms)) return NONE;
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1000) return `${ms < 10 ? short(ms) : Math.round(ms)}${GAP}ms`;
  if (ms < 59_950) return `${ms % 1000 === 0 ? ms / 1000 : (ms / 1000).toFixed(ms < 10_000 ? 2 : 1)}${GAP}s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 60) return `${minutes}${GAP}min${GAP}${seconds % 60}${GAP}s`;
  if (hours < 24) return `${hours}${GAP}h${GAP}${minutes % 60}${GAP}min`;
  return `${Math.floor(hours / 24)}${GAP}d${GAP}${hours % 24}${GAP}h`;
}

const day = new Intl.DateTimeFormat("en-GB", { month: "short", day: "numeric" });
const dayOfYear = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** The time of day alone. */
export function timeOfDay(ms: Maybe): string {
  return known(ms) ? clock.format(new Date(ms)) : NONE;
}

/** Local time, with the day unless it is today. */
export function time(ms: Maybe, now = Date.now()): string {
  if (!known(ms)) return NONE;
  const at = new Date(ms);
  const text = clock.format(at);
  const today = new Date(now);
  if (today.toDateString() === at.toDateString()) return text;
  return `${(today.getFullYear() === at.getFullYear() ? day : dayOfYear).format(at)}, ${text}`;
}

export function utc(ms: number): string {
  return `${new Date(ms).toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

/** From here on it is worth saying that partitions are uneven. */
const UNEVEN = 2;

/** The largest partition by the mean. */
export function skew(value: Maybe): string {
  return known(value) ? `${short(Math.round(value * 10) / 10)}x` : NONE;
}

export function isUneven(value: Maybe): boolean {
  return known(value) && value >= UNEVEN;
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Why something is not written down of a job. */
export function unwritten(job: { phase: string }): string {
  return job.phase === "new" ? "It is known as soon as the job has begun." : "The release that ran this job last did not write it down. Its next run will.";
}

/** The last part of a path or of an address, for narrow places. */
export function tail(path: string): string {
  return path.replace(/\/+$/, "").split("/").pop() ?? path;
}

/** How long ago, in whole seconds: it changes once a second. */
export function ago(at: Maybe, now: number): string {
  return known(at) ? `${duration(Math.max(0, Math.floor((now - at) / 1000)) * 1000)} ago` : NONE;
}

export function px(value: number): string {
  return `${Math.round(value * 100) / 100}px`;
}
