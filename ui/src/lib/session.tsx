/** What this page, its token and the job allow. One rule: what is not allowed says why. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { DashboardConfiguration } from "./contract";
import { useJob } from "./job";

export const Session = createContext<DashboardConfiguration | null>(null);

export function useSession(): DashboardConfiguration {
  const found = useContext(Session);
  if (found === null) throw new Error("useSession before the first answer");
  return found;
}

/** Null if the job can be told what to do, else why not. */
export function useMay(): string | null {
  const { features } = useSession();
  const { details, connection } = useJob();
  if (!features["web-cancel"]) return "This token only reads";
  if (!details) return "Nothing is known of the job yet";
  if (!details.live) return "The job is not running here: the commands headgate cancel and headgate savepoint delete work all the same";
  if (connection.state === "lost" || connection.state === "over") return "The process of the job does not answer";
  return null;
}
