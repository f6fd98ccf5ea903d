/** Line icons on a grid of 16, and the mark of dragoman. */
import { html } from "../lib/html.js";

const PATHS = {
  overview: "M2 9h3l2-5 3 8 2-3h2",
  requests: "M3 4h10M3 8h10M3 12h6",
  accounts: "M8 2.5l5.5 2.8L8 8.1 2.5 5.3zM2.5 8L8 10.8 13.5 8M2.5 10.7L8 13.5l5.5-2.8",
  workbench: "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10",
  clients: "M2.5 3.5h11v9h-11zM5 6.5l2 1.7-2 1.7M8.5 10h2.5",
  keys: "M5.5 6.8a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4zM7.5 7.5l5.5-5M10.5 4.8l2 2",
  people: "M8 2.8a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2zM3 13.2c0-5.5 10-5.5 10 0",
  usage: "M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6",
  losses: "M3 3h10l-3.5 5v5l-3-1.5V8z",
  routes: "M2.5 8h4l3-4h4M6.5 8l3 4h4",
  mcp: "M6 2.5v3M10 2.5v3M4 5.5h8v2.5a4 4 0 0 1-8 0zM8 12v2",
  config: "M3 4.5h6M12 4.5h1M3 11.5h1M7 11.5h6M10.5 3v3M5.5 10v3",
  search: "M7 2.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4zM10.2 10.2l3.3 3.3",
  close: "M4 4l8 8M12 4l-8 8",
  moon: "M12.5 9.7A5 5 0 0 1 6.3 3.5a5 5 0 1 0 6.2 6.2z",
  back: "M10 3.5L5.5 8l4.5 4.5",
};

/** @param {{ name: keyof typeof PATHS, size?: number }} props */
export const Icon = ({ name, size = 16 }) => html`
  <svg width=${size} height=${size} viewBox="0 0 16 16" fill="none" stroke="currentColor"
    stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d=${PATHS[name]} />
  </svg>
`;

export const Logo = () => html`
  <svg width="20" height="20" viewBox="0 0 20 20" fill="none" stroke="currentColor"
    stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
    <path d="M7 4L2.5 10 7 16" />
    <path d="M13 4l4.5 6-4.5 6" />
    <circle cx="10" cy="10" r="1.4" fill="currentColor" stroke="none" />
  </svg>
`;
