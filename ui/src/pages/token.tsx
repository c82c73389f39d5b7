/** Who may look: a token is missing, or is not the right one, or only reads. */

import { useState } from "preact/hooks";
import { hasToken, keepToken } from "../lib/api";
import { Button, Field, Notice } from "../parts/basics";
import { Mark } from "../parts/icons";

export type Why = "missing" | "wrong" | "readonly";

export function TokenPage({ why, onToken }: { why: Why; onToken: () => void }) {
  const [value, setValue] = useState("");
  return (
    <main class="token-page" id="main">
      <div class="token-box">
        <div class="token-brand">
          <Mark /> Headgate
        </div>
        {why === "missing" && (
          <Notice tone="info" title="A token is needed">
            Nobody sees a job without one.
          </Notice>
        )}
        {why === "wrong" && (
          <Notice tone="bad" title="The token is not the right one">
            {location.host} does not know it. A job makes a new one each time it is run.
          </Notice>
        )}
        {why === "readonly" && (
          <Notice tone="info" title="This token only reads">
            To take savepoints, or to stop or cancel jobs, give the other one.
          </Notice>
        )}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (value.trim() === "") return;
            keepToken(value);
            setValue("");
            onToken();
          }}
        >
          <Field label="Token">
            <input type="password" autoComplete="off" spellcheck={false} value={value} onInput={(event) => setValue(event.currentTarget.value)} autoFocus />
          </Field>
          <Button tone="primary" onClick={() => (document.querySelector(".token-box form") as HTMLFormElement).requestSubmit()} disabled={value.trim() === ""}>
            Look
          </Button>
          {why === "readonly" && hasToken() && <a href="#/">Go on reading</a>}
        </form>
        <h2>Where it is</h2>
        <dl class="token-where">
          <dt>a job's own process</dt>
          <dd>
            <code>token</code> and <code>read_token</code> in <code>control.json</code>, in the job's directory of the storage; only its owner can read that
          </dd>
          <dt>
            <code>headgate server</code>
          </dt>
          <dd>
            the first line of its <code>--token-file</code>, the second for reading; without a file it prints an address that has a token in it
          </dd>
        </dl>
        <p class="quiet">It is kept for this tab alone, until that is closed.</p>
      </div>
    </main>
  );
}
