/** Signs, drawn here so that nothing has to be fetched. Each is 16 by 16, in the colour of its text. */

const SHAPES = {
  check: "M3 8.5l3.2 3.2L13 4.8",
  cross: "M4 4l8 8M12 4l-8 8",
  warning: "M8 2.2l6.3 11.3H1.7zM8 6.4v3.2M8 11.6v.1",
  turning: "M13.5 8A5.5 5.5 0 1 1 8 2.5",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  dot: "M8 6.2a1.8 1.8 0 1 0 0 3.6a1.8 1.8 0 1 0 0-3.6",
  empty: "M2.5 9.5l2-6h7l2 6v3.5h-11zM2.5 9.5h3.2l1 1.6h2.6l1-1.6h3.2",
  copy: "M5.5 5.5h7.5v8h-7.5zM3 10.5v-8h7.5",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M13 3l-1.2 1.2M4.2 11.8L3 13",
  moon: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  help: "M6 6.2a2 2 0 1 1 2.9 1.8c-.6.3-.9.7-.9 1.4M8 11.8v.1",
  right: "M6 3.5L10.5 8 6 12.5",
  down: "M3.5 6L8 10.5 12.5 6",
  up: "M3.5 10L8 5.5 12.5 10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  flag: "M4 14V2.5h8l-2 3 2 3H4",
  save: "M3 3h8l2 2v8H3zM5.5 3v3.5h4.5V3M5.5 13V9.5h5V13",
  stop: "M4 4h8v8H4z",
  cancel: "M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6M4 12L12 4",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5.2a2.5 2.5 0 0 1 5 0v2.3",
  pin: "M6 2.5h4l-.5 4 2 2.5h-7l2-2.5zM8 9v4.5",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.6 9h5.8l.6-9",
  download: "M8 2.5v7.5M4.8 7L8 10.2 11.2 7M3 13.5h10",
  wifi: "M2 6.4a9 9 0 0 1 12 0M4.3 9a5.6 5.6 0 0 1 7.4 0M8 12v.1",
  back: "M10 3.5L5.5 8 10 12.5",
  source: "M2.5 8h8M7 4.5L10.5 8 7 11.5M13 3v10",
  sink: "M3 3v10M5.5 8h8M10 4.5L13.5 8 10 11.5",
} as const;

export type IconName = keyof typeof SHAPES;

export function Icon({ name, label }: { name: IconName; label?: string }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 16 16" role={label ? "img" : undefined} aria-label={label} aria-hidden={label ? undefined : true}>
      <path d={SHAPES[name]} />
    </svg>
  );
}

/** Two posts, and what passes between them. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <path class="mark-post" d="M5 3v18M19 3v18" />
      <path class="mark-gate" d="M5 8h14" />
      <path class="mark-flow" d="M1.5 16h13M11.5 12.8l3.4 3.2-3.4 3.2" />
    </svg>
  );
}
