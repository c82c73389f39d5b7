/** Small parts that every page is made of. */

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Trouble } from "../lib/api";
import { NONE, time, utc } from "../lib/format";
import { Icon, type IconName } from "./icons";

type Children = { readonly children?: ComponentChildren };

/** A moment: local, with UTC in its title. */
export function Time({ ms }: { ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <None />;
  return (
    <time dateTime={new Date(ms).toISOString()} title={utc(ms)}>
      {time(ms)}
    </time>
  );
}

export function None({ why = "not known" }: { why?: string }) {
  return (
    <span class="none" title={why}>
      {NONE}
      <span class="visually-hidden"> {why}</span>
    </span>
  );
}

export function Card({ title, aside, children, tight = false, id }: Children & { title?: ComponentChildren; aside?: ComponentChildren; tight?: boolean; id?: string }) {
  return (
    <section class={tight ? "card tight" : "card"} id={id}>
      {(title !== undefined || aside !== undefined) && (
        <header class="card-head">
          <h2>{title}</h2>
          {aside !== undefined && <div class="card-aside">{aside}</div>}
        </header>
      )}
      <div class="card-body">{children}</div>
    </section>
  );
}

export interface Fact {
  readonly name: string;
  readonly title?: string | undefined;
  readonly value: ComponentChildren;
}

export function Facts({ facts }: { facts: readonly (Fact | null)[] }) {
  return (
    <dl class="facts">
      {facts.map(
        (fact) =>
          fact && (
            <div key={fact.name}>
              <dt title={fact.title}>{fact.name}</dt>
              <dd>{fact.value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

export interface TileProps {
  readonly name: string;
  readonly value: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly title?: string;
  readonly tone?: Tone;
}

export function Tiles({ tiles }: { tiles: readonly TileProps[] }) {
  return (
    <dl class="tiles">
      {tiles.map(({ name, value, note, title, tone }) => (
        <div key={name} class={`tile ${tone ?? ""}`} title={title}>
          <dt>{name}</dt>
          <dd>{value}</dd>
          {note !== undefined && <dd class="note">{note}</dd>}
        </div>
      ))}
    </dl>
  );
}

export type Tone = "ok" | "warn" | "bad" | "busy" | "quiet" | "info";

const SIGNS: Readonly<Record<Tone, IconName>> = { ok: "check", warn: "warning", bad: "cross", busy: "turning", quiet: "pause", info: "dot" };

/** A word with a sign and a colour: any one of the three is enough to tell. */
export function Badge({ tone, children, title, sign }: Children & { tone: Tone; title?: string | undefined; sign?: IconName }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      <Icon name={sign ?? SIGNS[tone]} />
      {children}
    </span>
  );
}

export function Tag({ children, title }: Children & { title?: string }) {
  return (
    <span class="tag" title={title}>
      {children}
    </span>
  );
}

export function Notice({ tone, title, children, actions }: Children & { tone: Tone; title: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : "status"}>
      <Icon name={SIGNS[tone]} />
      <div class="notice-text">
        <strong>{title}</strong>
        {children !== undefined && <div>{children}</div>}
      </div>
      {actions !== undefined && <div class="notice-actions">{actions}</div>}
    </div>
  );
}

/** Nothing there, and why that is so. */
export function Empty({ title, children }: Children & { title: string }) {
  return (
    <div class="empty">
      <Icon name="empty" />
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
    </div>
  );
}

/** Grey shapes where rows will be. They come late, so that what is quick does not flicker. */
export function Loading({ lines = 4, what }: { lines?: number; what: string }) {
  return (
    <div class="loading" role="status">
      <span class="visually-hidden">Loading {what}</span>
      {Array.from({ length: lines }, (_, line) => (
        <span key={line} class="bone" aria-hidden="true" />
      ))}
    </div>
  );
}

export function Failing({ trouble, what, retry }: { trouble: Trouble; what: string; retry?: () => void }) {
  const title = trouble.kind === "unreachable" ? "Not reachable" : trouble.kind === "missing" ? "Not found" : `Cannot show ${what}`;
  return (
    <Notice tone={trouble.kind === "missing" ? "warn" : "bad"} title={title} actions={retry && <button onClick={retry}>Try again</button>}>
      {trouble.lines.map((line) => (
        <div key={line}>{line}</div>
      ))}
    </Notice>
  );
}

export function Button({
  children,
  onClick,
  tone,
  icon,
  disabled,
  title,
  busy = false,
}: Children & {
  onClick: () => void;
  tone?: "primary" | "danger" | "plain";
  icon?: IconName;
  disabled?: boolean;
  title?: string | undefined;
  busy?: boolean;
}) {
  // A disabled button says why to nobody: aria-disabled keeps it in the order of tabs, with its title.
  const off = disabled === true || busy;
  return (
    <button type="button" class={tone ?? ""} aria-disabled={off} aria-busy={busy} title={title} onClick={() => !off && onClick()}>
      {icon && <Icon name={busy ? "turning" : icon} />}
      {children}
    </button>
  );
}

export function Copy({ text, what }: { text: string; what: string }) {
  const [done, setDone] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(text).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    });
  };
  return (
    <button type="button" class="plain small" title={`Copy ${what}`} aria-label={done ? "Copied" : `Copy ${what}`} onClick={copy}>
      <Icon name={done ? "check" : "copy"} />
    </button>
  );
}

/** A path that may be longer than its place: the end stays to be seen, the whole is in the title. */
export function Path({ path }: { path: string | null }) {
  if (path === null) return <None />;
  return (
    <span class="path">
      <code title={path}>
        <bdi>{path}</bdi>
      </code>
      <Copy text={path} what="path" />
    </span>
  );
}

export interface TabProps {
  readonly name: string;
  readonly href: string;
  readonly current: boolean;
  readonly note?: ComponentChildren;
}

export function Tabs({ tabs, label }: { tabs: readonly TabProps[]; label: string }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ name, href, current, note }) => (
        <a key={href} href={href} aria-current={current ? "page" : undefined}>
          {name}
          {note !== undefined && <span class="tab-note">{note}</span>}
        </a>
      ))}
    </nav>
  );
}

export function Field({ label, children }: Children & { label: string }): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
    </label>
  );
}
