/** Events as sentences. One rule: a type that is not known here is shown as it is, never left out. */

import type { Tone } from "../parts/basics";
import { bytes, count, duration } from "./format";
import type { JobEvent } from "./job";

const TONES: Readonly<Record<string, Tone>> = {
  "task-failed": "bad",
  "checkpoint-failed": "bad",
  unreadable: "bad",
  gap: "warn",
  missed: "warn",
  warning: "warn",
  restart: "warn",
  decision: "warn",
  "checkpoint-completed": "ok",
  "checkpoint-committed": "ok",
  "savepoint-copied": "ok",
};

export const TYPES = [
  "generation",
  "guarantee",
  "task-started",
  "task-failed",
  "restart",
  "checkpoint-triggered",
  "checkpoint-completed",
  "checkpoint-failed",
  "checkpoint-committed",
  "savepoint-copied",
  "receipt",
  "decision",
  "notice",
  "warning",
  "ended",
  "gap",
  "unreadable",
] as const;

export function toneOf(event: JobEvent): Tone {
  if (event.event === "ended") return event["ending"] === "failed" ? "bad" : event["ending"] === "finished" ? "ok" : "quiet";
  return TONES[event.event] ?? "info";
}

function text(value: unknown): string {
  return value === null || value === undefined ? "–" : String(value);
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

export function sentence(event: JobEvent): string {
  const it = (name: string): string => text(event[name]);
  const kind = event["kind"] === "savepoint" ? "savepoint" : "checkpoint";
  switch (event.event) {
    case "guarantee": {
      const because = Array.isArray(event["because"]) ? event["because"].map(String) : [];
      return `${it("guarantee").replaceAll("_", "-")} from end to end${because.length > 0 ? `, because of ${because.join(", ")}` : ""}`;
    }
    case "generation":
      return `generation ${it("generation")} ${event["base"] === null ? "begins from nothing" : `goes on from checkpoint ${it("base")}`}, led by ${it("leader")}`;
    case "task-started":
      return `task ${it("task")} started, run ${it("run")}${event["batch"] === -1 ? "" : `, after batch ${it("batch")}`}`;
    case "task-failed":
      return `task ${it("task")} failed in run ${it("run")} (${it("class")}): ${it("message")}`;
    case "restart":
      return `${event["level"] === "job" ? "the job restarts" : `task ${it("task")} restarts`} in ${duration(number(event["delay_ms"]))}: ${it("cause")}`;
    case "checkpoint-triggered":
      return `${kind} ${it("id")} triggered${event["unaligned"] === true ? ", unaligned" : ""}`;
    case "checkpoint-completed":
      return `${kind} ${it("id")} completed in ${duration(number(event["duration_ms"]))}`;
    case "checkpoint-failed":
      return `${kind} ${it("id")} failed: ${it("why")}`;
    case "checkpoint-committed": {
      const retries = number(event["retries"]);
      return `checkpoint ${it("id")} committed by every sink in ${duration(number(event["commit_ms"]))}${retries ? `, after ${count(retries)} retries` : ""}${event["recovered"] === true ? ", left by an earlier generation" : ""}`;
    }
    case "receipt": {
      const receipt = event["receipt"] as { readonly rows?: unknown } | null;
      const rows = number(receipt?.rows);
      return `sink ${it("sink")}: ${rows === null ? "rows that nobody counted" : `${count(rows)} rows`} of checkpoint ${it("id")} committed`;
    }
    case "decision": {
      const sinks = Array.isArray(event["sinks"]) ? event["sinks"].map(String).join(", ") : "–";
      return `sink ${sinks}: ${event["decision"] === "commit" ? "to be committed by hand" : "commits are to be given up"}: ${it("reason")}`;
    }
    case "savepoint-copied":
      return `savepoint ${it("id")} is copied, and can be carried away`;
    case "checking":
      return `reading the files of checkpoint ${it("checkpoint")}: ${bytes(number(event["bytes"]))} of ${bytes(number(event["of_bytes"]))}`;
    case "notice":
    case "warning":
      return it("text");
    case "gap":
      return `${it("lines")} lines could not be written: ${it("why")}`;
    case "missed":
      return `this page was too slow for ${it("events")} events: they are in the list below after the next reload`;
    case "unreadable":
      return `a line of the history is not whole: ${it("where")}, ${it("bytes")} bytes at ${it("offset")}`;
    case "ended":
      return `the job ${ENDINGS[it("ending")] ?? it("ending")}${event["text"] ? `: ${it("text")}` : ""}`;
    default:
      return Object.entries(event)
        .filter(([name]) => name !== "at" && name !== "event" && name !== "position")
        .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : text(value)}`)
        .join(", ");
  }
}

const ENDINGS: Readonly<Record<string, string>> = {
  finished: "has finished",
  stopped: "was stopped",
  cancelled: "was cancelled",
  failed: "has failed",
  deposed: "is led by another process now",
  interrupted: "was interrupted",
};
