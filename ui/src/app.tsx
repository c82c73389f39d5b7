/** The page as a whole: who may look, where one is, what the keys do. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { dropToken, findToken, get, hasToken, onUnauthorized, troubleOf, type Trouble } from "./lib/api";
import type { DashboardConfiguration } from "./lib/contract";
import { useShortcuts, type Shortcut } from "./lib/keys";
import { go, href, useRoute, type Route } from "./lib/route";
import { Session } from "./lib/session";
import { nextTheme, theme } from "./lib/theme";
import { JobPages, jobShortcuts } from "./pages/job";
import { JobsPage } from "./pages/jobs";
import { TokenPage } from "./pages/token";
import { Failing, Notice } from "./parts/basics";
import { Dialog } from "./parts/dialog";
import { Icon, Mark } from "./parts/icons";

const RETRY_MS = 3000;

type Entry =
  | { readonly state: "asking" }
  | { readonly state: "token"; readonly why: "missing" | "wrong" }
  | { readonly state: "failing"; readonly trouble: Trouble }
  | { readonly state: "in"; readonly config: DashboardConfiguration };

export function App() {
  const [entry, setEntry] = useState<Entry>(hasToken() ? { state: "asking" } : { state: "token", why: "missing" });
  const [turn, setTurn] = useState(0);
  const path = useRoute();

  useEffect(() => {
    onUnauthorized(() => {
      dropToken();
      setEntry({ state: "token", why: "wrong" });
    });
    // An address with another token may be opened in a tab that is open already.
    const moved = (): void => {
      if (findToken()) {
        dispatchEvent(new Event("hashchange"));
        again();
      }
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);

  useEffect(() => {
    if (!hasToken()) return undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let left = false;
    get<DashboardConfiguration>("/config").then(
      (config) => {
        if (left) return;
        // The process of a job has one job: that is where to go.
        if (config.process.job !== null && location.hash.replace(/^#\/?/, "") === "") {
          history.replaceState(null, "", href("jobs", config.process.job));
          dispatchEvent(new Event("hashchange"));
        }
        setEntry({ state: "in", config });
      },
      (error: unknown) => {
        const trouble = troubleOf(error);
        if (left || trouble.kind === "unauthorized") return;
        setEntry({ state: "failing", trouble });
        timer = setTimeout(() => setTurn((before) => before + 1), RETRY_MS);
      },
    );
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [turn]);

  const again = (): void => {
    setEntry({ state: "asking" });
    setTurn((before) => before + 1);
  };
  if (entry.state === "token") return <TokenPage why={entry.why} onToken={again} />;
  if (entry.state === "in" && path[0] === "token") {
    return (
      <TokenPage
        why="readonly"
        onToken={() => {
          go();
          again();
        }}
      />
    );
  }
  if (entry.state === "in") {
    return (
      <Session.Provider value={entry.config}>
        <Shell path={path} config={entry.config} />
      </Session.Provider>
    );
  }
  return (
    <main id="main" class="page first" tabIndex={-1}>
      {entry.state === "failing" && <Failing trouble={entry.trouble} what="this page" retry={again} />}
    </main>
  );
}

function Shell({ path, config }: { path: Route; config: DashboardConfiguration }) {
  const [help, setHelp] = useState(false);
  const [chosen, setChosen] = useState(theme());
  const jid = path[0] === "jobs" && path[1] !== undefined ? path[1] : null;
  const turn = (): void => setChosen(nextTheme());
  const shortcuts = useMemo<Shortcut[]>(
    () => [
      { keys: "g j", what: "Jobs", run: () => go() },
      ...(jid === null ? [] : jobShortcuts(jid)),
      { keys: "/", what: "Filter", run: () => document.querySelector<HTMLInputElement>("input.filter")?.focus() },
      { keys: "t", what: "Light, dark, or as the system has it", run: turn },
      { keys: "?", what: "This list", run: () => setHelp(true) },
    ],
    [jid],
  );
  useShortcuts(shortcuts);
  useTitle(path);
  useFocus(path);
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href="#/" title="All jobs (g j)">
          <Mark />
          <span>Headgate</span>
        </a>
        <nav class="where" aria-label="Where this is">
          <a href="#/" aria-current={jid === null ? "page" : undefined}>
            Jobs
          </a>
          {jid !== null && (
            <>
              <Icon name="right" />
              <a href={href("jobs", jid)} aria-current="page">
                {jid}
              </a>
            </>
          )}
        </nav>
        <span class="grow" />
        {!config.features["web-cancel"] && jid === null && (
          <a class="read-only" href={href("token")} title="This token only reads: give the other one to command">
            <Icon name="lock" /> read only
          </a>
        )}
        <button type="button" class="plain" title={`Theme: ${chosen} (t)`} aria-label={`Theme: ${chosen}. Change it`} onClick={turn}>
          <Icon name={chosen === "light" ? "sun" : chosen === "dark" ? "moon" : "system"} />
        </button>
        <button type="button" class="plain" title="Shortcuts (?)" aria-label="Shortcuts" onClick={() => setHelp(true)}>
          <Icon name="help" />
        </button>
      </header>
      <Content path={path} every={Math.max(1000, config["refresh-interval"])} />
      {help && (
        <Dialog title="Shortcuts" onClose={() => setHelp(false)}>
          <dl class="shortcuts">
            {shortcuts.map(({ keys, what }) => (
              <div key={keys}>
                <dt>
                  {keys.split(" ").map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
            <div>
              <dt>
                <kbd>↑</kbd>
                <kbd>↓</kbd>
              </dt>
              <dd>Rows of a table</dd>
            </div>
            <div>
              <dt>
                <kbd>Esc</kbd>
              </dt>
              <dd>Close what is open</dd>
            </div>
          </dl>
          <p class="quiet dialog-foot">Headgate {config["headgate-version"]}</p>
        </Dialog>
      )}
    </>
  );
}

function Content({ path, every }: { path: Route; every: number }) {
  const [first, jid, ...rest] = path;
  if (first === undefined) return <JobsPage every={every} />;
  if (first === "jobs" && jid === undefined) return <JobsPage every={every} />;
  if (first === "jobs" && jid !== undefined) return <JobPages key={jid} jid={jid} rest={rest} />;
  return (
    <main id="main" class="page" tabIndex={-1}>
      <Notice tone="warn" title="There is no such page">
        <a href="#/">To the jobs</a>
      </Notice>
    </main>
  );
}

function useTitle(path: Route): void {
  const [, jid, page] = path;
  const text = jid === undefined ? "Jobs" : page === undefined ? jid : `${jid} · ${page}`;
  useEffect(() => {
    document.title = `${text} · Headgate`;
  }, [text]);
}

/** On another page one begins at its top, and so does a screen reader. */
function useFocus(path: Route): void {
  const page = path.slice(0, 3).join("/").replace(/\/tasks$/, "");
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }, [page]);
}
