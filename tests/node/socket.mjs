// Holds a conversation with tools over one WebSocket of openai-node: a job as JSON on standard
// input, what happens as lines of JSON on standard output: the terminal event of each turn, and
// that the socket was opened again. Each of `models` answers one turn. With `cancel` the socket is
// closed in the middle of the first, with `reconnect` the first turn waits until it was opened again.
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

const { baseUrl, key, models, body, cancel, reconnect } = JSON.parse(await new Response(process.stdin).text());
const tell = (what) => console.log(JSON.stringify(what));
const options = reconnect ? { reconnect: { onReconnecting: () => undefined, initialDelay: 10 } } : {};
const socket = new ResponsesWS(new OpenAI({ baseURL: baseUrl, apiKey: key }), options);

let turn = 0;
let left = false;
function ask(content, previous) {
  const input = Array.isArray(content) ? content : [{ type: "message", role: "user", content }];
  const request = { type: "response.create", ...body, model: models[turn], input };
  socket.send(previous ? { ...request, previous_response_id: previous } : request);
}

function next(response) {
  turn += 1;
  if (turn === models.length) {
    socket.close({ code: 1000, reason: "done" });
    return;
  }
  const calls = (response?.output ?? []).filter((item) => item.type === "function_call");
  const outputs = calls.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: "a cat" }));
  ask(outputs.length ? outputs : `once more ${turn - 1}`, response?.id);
}

socket.on("error", (error) => {
  tell({ type: "error", told: String(error), code: error.error?.code });
  if (!reconnect) next();
});
socket.on("reconnected", () => {
  tell({ type: "reconnected" });
  ask("look");
});
socket.on("event", (event) => {
  // What came with it is read yet when the socket is closed.
  if (cancel && !left && event.type === "response.output_text.delta") {
    left = true;
    tell(event);
    socket.close({ code: 1000, reason: "enough" });
  }
  if (!["response.completed", "response.failed", "response.incomplete"].includes(event.type)) return;
  tell(event);
  next(event.response);
});

if (!reconnect) ask("look");
