/** A request that is sent: the events of the upstream beside those that the client is sent. */
import { classes, html } from "../lib/html.js";
import { useState } from "../vendor/hooks.js";
import { encoded } from "../lib/api.js";
import { count, duration, printable, size } from "../lib/format.js";
import { useStream } from "../lib/hooks.js";
import { coloured, jsonLines } from "../lib/json_lines.js";
import { CopyButton } from "../components/controls.js";
import { ErrorBanner, Panel, ScrollRegion } from "../components/layout.js";
import { Protocol } from "../components/protocols.js";
import { isPing, recognizeProtocol, splitEvents, summarize } from "./workbench_events.js";
import { SendDialog } from "./workbench_send.js";

/**
 * A row of the table of frames: an attempt, or a frame of the upstream with those that the client
 * was sent for it. Frames of the gateway itself have no `upstream`.
 * @typedef {object} FrameRow
 * @property {Api.Frame} [attempt]
 * @property {Api.Frame} [upstream]
 * @property {Api.Frame[]} client
 */

/**
 * @param {Api.Frame[]} frames
 * @returns {FrameRow[]}
 */
function rowsOf(frames) {
  /** @type {FrameRow[]} */
  const rows = [];
  for (const frame of frames) {
    const last = rows.at(-1);
    if (frame.event === "attempt") rows.push({ attempt: frame, client: [] });
    if (frame.event === "upstream") rows.push({ upstream: frame, client: [] });
    if (frame.event === "client") {
      // Only frames sent before the next one arrives are shown beside their cause.
      const isCause = last?.upstream && last.upstream.number === frame.caused_by;
      if (isCause) last.client.push(frame);
      else rows.push({ client: [frame] });
    }
  }
  return rows;
}

/**
 * The bytes of one side.
 * @param {Api.Frame[]} frames
 * @param {"upstream" | "client"} side
 */
const rawOf = (frames, side) =>
  frames
    .filter((frame) => frame.event === side)
    .map((frame) => frame.raw)
    .join("");

const RECOGNIZED_LENGTH = 4000;

/**
 * @param {{ request: import("./workbench.js").WorkbenchRequest, isValid: boolean,
 *   policy: Api.Policy }} props
 */
export function StreamPanel({ request, isValid, policy }) {
  const { events, error, isRunning, start, stop } = useStream();
  const frames = /** @type {Api.Frame[]} */ (events);
  const [isAsking, setIsAsking] = useState(false);
  /** Where the request was sent. */
  const [sent, setSent] = useState(/** @type {Api.SendTarget | null} */ (null));
  const [current, setCurrent] = useState(-1);
  const [open, setOpen] = useState(-1);

  const send = (target) => {
    setIsAsking(false);
    setSent(target);
    setCurrent(-1);
    setOpen(-1);
    start("workbench/send", { from: request.source, body: request.body, policy, ...target });
  };
  const rows = rowsOf(frames);
  const done = frames.find((frame) => frame.event === "done");
  const attempt = frames.find((frame) => frame.event === "attempt");
  const spoken =
    done &&
    attempt &&
    (sent?.to || recognizeProtocol(rawOf(frames, "upstream").slice(0, RECOGNIZED_LENGTH)));

  const onKeyDown = (event) => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[/** @type {string} */ (event.key)];
    if (step && rows.length) {
      event.preventDefault();
      setCurrent(Math.max(0, Math.min(rows.length - 1, current + step)));
    } else if (event.key === "Enter" && current >= 0 && event.target.tagName !== "BUTTON") {
      setOpen(open === current ? -1 : current);
    }
  };
  const toggle = (index) => {
    setCurrent(index);
    setOpen(open === index ? -1 : index);
  };
  const tools = html`
    <span class="right row">
      ${
        rows.length > 0 &&
        html`
          <span class="num muted small">
            ${current >= 0 ? `${current + 1} of ` : ""}${count(rows.length)}
          </span>
        `
      }
      ${
        isRunning
          ? html`<button class="btn" onClick=${stop}>Stop</button>`
          : html`
            <button class="btn primary" disabled=${!isValid} onClick=${() => setIsAsking(true)}>
              Send…
            </button>
          `
      }
    </span>
  `;
  return html`
    <${Panel} title="The stream, frame by frame" note=${sentText(sent)} tools=${tools}
      class="frames-panel">
      <${ErrorBanner} text=${error} />
      ${
        rows.length > 0 &&
        html`
          <${ScrollRegion} label="Frames" class="frames" onKeyDown=${onKeyDown}>
            <div class="frame-row head">
              <div>Upstream ${spoken && html`<${Protocol} id=${spoken} />`}</div>
              <div>seconds</div>
              <div>Client <${Protocol} id=${request.source} /></div>
            </div>
            ${rows.map((row, index) =>
              row.attempt
                ? html`<${AttemptRow} frame=${row.attempt} />`
                : html`
                  <${FramesRow} row=${row} isCurrent=${index === current} isOpen=${index === open}
                    onClick=${() => toggle(index)} />
                `,
            )}
          <//>
        `
      }
      ${done && html`<${Summary} done=${done} frames=${frames} isLogged=${!sent?.scenario} />`}
      ${attempt && html`<${SentBody} body=${attempt.body} />`}
      ${
        isAsking &&
        html`
          <${SendDialog} request=${request} onClose=${() => setIsAsking(false)} onDone=${send} />
        `
      }
    <//>
  `;
}

/** @param {Api.SendTarget | null} sent */
function sentText(sent) {
  if (!sent) return "nothing was sent yet";
  if (sent.scenario) return `simulator, scenario ${printable(sent.scenario)}`;
  return `to ${printable(sent.model || "the model of the request")}`;
}

/** @param {{ frame: Api.Frame }} props */
const AttemptRow = ({ frame: { number, account, upstream, status, at_ms: ms } }) => html`
  <div class="frame-row whole">
    <div>
      <b class="strong">Attempt ${number}</b> ${printable(account)} of ${printable(upstream)}
      ${" answers "}<b class="num">${status}</b> after ${duration(ms / 1000)}
    </div>
  </div>
`;

/** @param {{ row: FrameRow, isCurrent: boolean, isOpen: boolean, onClick: () => void }} props */
function FramesRow({ row: { upstream, client }, isCurrent, isOpen, onClick }) {
  const first = upstream || client[0];
  return html`
    <div class=${classes("frame-row", isCurrent && "at")} onClick=${onClick}>
      <div>
        ${
          upstream
            ? html`<${EventLine} raw=${upstream.raw} />`
            : html`<p class="frame-note">by the gateway itself</p>`
        }
      </div>
      <div>
        <b>${(first.at_ms / 1000).toFixed(3)}</b>
        <span class="faint not-phone">${" " + size(first.bytes)}</span>
      </div>
      <div>
        ${
          client.length
            ? client
                .flatMap((frame) => splitEvents(frame.raw))
                .map((raw) => html`<${EventLine} raw=${raw} />`)
            : html`
              <p class="frame-note">
                ${isPing(upstream?.raw || "") ? "ping" : "nothing is sent for it"}
              </p>
            `
        }
      </div>
      ${
        isOpen &&
        html`
          <div class="unfold">
            <pre>${upstream ? upstream.raw : ""}</pre>
            <pre>${client.map((frame) => frame.raw).join("")}</pre>
          </div>
        `
      }
    </div>
  `;
}

/** @param {{ raw: string }} props */
function EventLine({ raw }) {
  const { name, text } = summarize(raw);
  return html`
    <p title=${printable(text)}>
      <span class="event-name">${printable(name)}</span> ${printable(text)}
    </p>
  `;
}

/**
 * How it ended.
 * @param {{ done: Api.Frame, frames: Api.Frame[], isLogged: boolean }} props
 */
function Summary({ done, frames, isLogged }) {
  const { status, error, usage, left_out: leftOut, id, at_ms: ms } = done;
  const parts = [
    `${status < 400 && !error ? "Answered" : "Ended"} with ${status || "no status"}`,
    error ? `, ${printable(error)}` : "",
    ` after ${duration(ms / 1000)}`,
    usage ? `; ${count(usage.input)} tokens in, ${count(usage.output)} out` : "",
    leftOut ? `; ${count(leftOut)} more frames are not shown` : "",
    ". ",
  ];
  return html`
    <div class="note">
      <span>
        ${parts.join("")}
        ${isLogged && html`<a href=${"/ui/requests/" + encoded(id)}>${id}</a>`}
      </span>
      <span class="grow"></span>
      <${CopyButton} text=${rawOf(frames, "upstream")} label="Copy upstream’s events">
        Copy upstream’s
      <//>
      <${CopyButton} text=${rawOf(frames, "client")} label="Copy client’s events">Copy client’s<//>
    </div>
  `;
}

/**
 * The request as the upstream was sent it.
 * @param {{ body: string }} props
 */
function SentBody({ body }) {
  let lines;
  try {
    lines = jsonLines(JSON.parse(body)).map(({ text }) => coloured(text));
  } catch {
    lines = [printable(body)];
  }
  return html`
    <details class="sent-body">
      <summary>Request sent to the upstream</summary>
      <div class="code">
        <ol>${lines.map((line) => html`<li><i></i><code>${line}</code></li>`)}</ol>
      </div>
    </details>
  `;
}
