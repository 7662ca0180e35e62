// Icons of 16 by 16, drawn with the colour of the text.

const PATHS: Record<string, string> = {
  executions: "M2.5 4h3M2.5 8h3M2.5 12h3M8 4h5.5M8 8h5.5M8 12h5.5",
  inbox: "M2 9.5 4 3h8l2 6.5V13H2zM2 9.5h3.5l1 1.5h3l1-1.5H14",
  catalog: "M3 2.5h7.5L13 5v8.5H3zM10 2.5V5.5h3M5.5 8.5h5M5.5 11h5",
  triggers: "M8.5 1.5 3 9h4.5L7 14.5 13 7H8.5z",
  workers: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01",
  keychain: "M9.5 6.5a3 3 0 1 0-2 2L9 10h1.5v1.5H12V13h2v-2.5l-4.7-4.2M5 6h.01",
  users: "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M1.5 13.5c0-2.5 2-4 4.5-4s4.5 1.5 4.5 4M10.5 2.8a2.5 2.5 0 0 1 0 4.5M12 9.8c1.5.6 2.5 1.9 2.5 3.7",
  sessions: "M2 3h12v8H2zM5.5 13.5h5M8 11v2.5",
  audit: "M4 2h8v12H4zM6 5h4M6 8h4M6 11h2",
  settings: "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4M8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M3.4 12.6l1.4-1.4M11.2 4.8l1.4-1.4",
  search: "M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10M10.7 10.7 14 14",
  close: "M4 4l8 8M12 4l-8 8",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  check: "M3 8.5 6.5 12 13 4.5",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  down: "M4 6l4 4 4-4",
  up: "M4 10l4-4 4 4",
  left: "M10 4 6 8l4 4",
  right: "M6 4l4 4-4 4",
  first: "M4 3.5v9M12 4 8 8l4 4",
  last: "M12 3.5v9M4 4l4 4-4 4",
  play: "M5 3l8 5-8 5z",
  pause: "M5 3.5v9M11 3.5v9",
  stop: "M4 4h8v8H4z",
  retry: "M13 8a5 5 0 1 1-1.5-3.6L13 6M13 2.5V6H9.5",
  fork: "M4.5 5.5v5M4.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M4.5 13.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M11.5 5.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M11.5 5.5c0 3-7 2-7 5",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  filter: "M2 3.5h12L9.5 9v4l-3-1.5V9z",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 4.5V8l2.5 1.5",
  link: "M6.5 9.5 9.5 6.5M7 4.5 8.5 3a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5 7.5 13A3 3 0 0 1 3 8.5L4.5 7",
  question: "M5.5 6a2.5 2.5 0 1 1 3.7 2.2c-.8.5-1.2.9-1.2 1.8M8 12.5h.01",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5",
  side: "M2.5 3h11v10h-11zM6.5 3v10",
  sign_out: "M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6",
  person: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2.5 14c0-3 2.5-4.5 5.5-4.5s5.5 1.5 5.5 4.5",
  edit: "M3 13l.6-2.8L10.8 3a1.4 1.4 0 0 1 2.2 2.2L5.8 12.4z",
  bell: "M4 11V7a4 4 0 0 1 8 0v4l1.5 1.5h-11zM6.5 14h3",
  graph: "M2 6h4v4H2zM10 2h4v4h-4zM10 10h4v4h-4zM6 8h2M8 8V4h2M8 8v4h2",
};

export type IconName = keyof typeof PATHS & string;

export function Icon({ name }: { name: string }) {
  return (
    <svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" />
      <path d="M9 22V10l14 12V10" strokeWidth="2.6" fill="none" strokeLinecap="round" strokeLinejoin="round" />
      <circle cx="9" cy="10" r="3" />
      <circle cx="23" cy="22" r="3" />
    </svg>
  );
}
