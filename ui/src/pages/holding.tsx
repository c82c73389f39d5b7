/** Hold, release, label and delete: what may be done with a checkpoint that is complete. */

import { useState } from "preact/hooks";
import type { CheckpointStatistics, SavepointInfo } from "../lib/contract";
import { useOperations } from "../lib/operations";
import { useMay } from "../lib/session";
import { Button } from "../parts/basics";
import { Confirm, type Question } from "../parts/dialog";

export function HoldButton({ checkpoint, small = false }: { checkpoint: CheckpointStatistics; small?: boolean }) {
  const { ask, busy } = useOperations();
  const may = useMay();
  if (checkpoint.status !== "COMPLETED" || !checkpoint.kept) return null;
  const kind = checkpoint.held ? "release" : "hold";
  const run = (): void =>
    void ask({ kind, label: `${checkpoint.held ? "Release" : "Hold"} ${checkpoint.id}`, path: `/checkpoints/details/${checkpoint.id}/${kind}` });
  const title = may ?? (checkpoint.held ? "Let it go when it is its turn" : "Keep it, however many come after it");
  return (
    <Button {...(small ? { tone: "plain" as const } : {})} icon="pin" disabled={may !== null} busy={busy.has(kind)} title={title} onClick={run}>
      {checkpoint.held ? "Release" : "Hold"}
    </Button>
  );
}

export function LabelButton({ savepoint }: { savepoint: SavepointInfo }) {
  const { ask, busy } = useOperations();
  const may = useMay();
  const [question, setQuestion] = useState<Question | null>(null);
  const open = (): void => {
    let label = savepoint.label ?? "";
    setQuestion({
      title: `Label savepoint ${savepoint.id}`,
      text: (
        <label class="field">
          What it is, in a few words; nothing takes the label away
          <input type="text" maxLength={200} defaultValue={label} onInput={(event) => (label = event.currentTarget.value)} />
        </label>
      ),
      yes: "Label it",
      no: "Leave it",
      danger: false,
      run: () => void ask({ kind: "label", label: `Label savepoint ${savepoint.id}`, path: `/savepoints/details/${savepoint.id}/label`, body: { label } }),
    });
  };
  return (
    <>
      <Button tone="plain" disabled={may !== null} busy={busy.has("label")} title={may ?? "Say what it is"} onClick={open}>
        Label
      </Button>
      {question && <Confirm question={question} onClose={() => setQuestion(null)} />}
    </>
  );
}

export function DeleteButton({ savepoint }: { savepoint: CheckpointStatistics }) {
  const { ask, busy } = useOperations();
  const may = useMay();
  const [question, setQuestion] = useState<Question | null>(null);
  const open = (): void =>
    setQuestion({
      title: `Delete savepoint ${savepoint.id}?`,
      text: (
        <>
          <p>Its record and its directory go, and, with the next garbage collection, what only it needed. Nobody can bring it back.</p>
          {savepoint.external_path && (
            <p>
              <code class="wrap">{savepoint.external_path}</code>
            </p>
          )}
        </>
      ),
      yes: `Delete savepoint ${savepoint.id}`,
      no: "Keep it",
      danger: true,
      run: () => void ask({ kind: "delete", label: `Delete savepoint ${savepoint.id}`, method: "DELETE", path: `/savepoints/details/${savepoint.id}` }),
    });
  return (
    <>
      <Button tone="plain" icon="trash" disabled={may !== null} busy={busy.has("delete")} title={may ?? "Delete it for good"} onClick={open}>
        Delete
      </Button>
      {question && <Confirm question={question} onClose={() => setQuestion(null)} />}
    </>
  );
}
