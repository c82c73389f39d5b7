/** Questions before something is done. One rule: the safe answer has the focus, and Escape is the safe answer. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./basics";
import { Icon } from "./icons";

export function Dialog({ title, children, onClose, wide = false }: { title: string; children: ComponentChildren; onClose: () => void; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const { current } = element;
    current?.showModal();
    return () => current?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "wide" : ""}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-box">
        <header>
          <h2>{title}</h2>
          <button type="button" class="plain small" aria-label="Close" title="Close (Esc)" onClick={onClose}>
            <Icon name="cross" />
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export interface Question {
  readonly title: string;
  readonly text: ComponentChildren;
  readonly yes: string;
  readonly no: string;
  readonly danger: boolean;
  readonly run: () => void;
}

export function Confirm({ question, onClose }: { question: Question; onClose: () => void }) {
  const no = useRef<HTMLDivElement>(null);
  useEffect(() => no.current?.querySelector("button")?.focus(), []);
  return (
    <Dialog title={question.title} onClose={onClose}>
      <div class="dialog-text">{question.text}</div>
      <footer>
        <div ref={no}>
          <Button onClick={onClose}>{question.no}</Button>
        </div>
        <Button
          tone={question.danger ? "danger" : "primary"}
          onClick={() => {
            question.run();
            onClose();
          }}
        >
          {question.yes}
        </Button>
      </footer>
    </Dialog>
  );
}

/** What belongs to one row, at the side of the page. */
export function Drawer({ title, children, onClose }: { title: ComponentChildren; children: ComponentChildren; onClose: () => void }) {
  const element = useRef<HTMLElement>(null);
  const before = useRef<Element | null>(document.activeElement);
  useEffect(() => {
    const from = before.current;
    element.current?.focus();
    const pressed = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) onClose();
    };
    addEventListener("keydown", pressed);
    return () => {
      removeEventListener("keydown", pressed);
      if (from instanceof HTMLElement || from instanceof SVGElement) from.focus();
    };
  }, []);
  return (
    <aside class="drawer" ref={element} tabIndex={-1} aria-label="Details">
      <header>
        <h2>{title}</h2>
        <button type="button" class="plain small" aria-label="Close" title="Close (Esc)" onClick={onClose}>
          <Icon name="cross" />
        </button>
      </header>
      <div class="drawer-body">{children}</div>
    </aside>
  );
}
