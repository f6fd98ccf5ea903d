// Holds a conversation with tools over one WebSocket of openai-node: a job as JSON on standard
// input, the terminal event of each turn as a line of JSON on standard output.
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";

const { baseUrl, key, turns, body } = JSON.parse(await new Response(process.stdin).text());
const socket = new ResponsesWS(new OpenAI({ baseURL: baseUrl, apiKey: key }));
socket.on("error", (error) => console.log(JSON.stringify({ type: "error", told: String(error), ...error.error })));

let turn = 0;
function ask(input, previous) {
  socket.send({ type: "response.create", ...body, input, ...(previous && { previous_response_id: previous }) });
}

socket.on("event", (event) => {
  if (!["response.completed", "response.failed", "response.incomplete", "error"].includes(event.type)) return;
  console.log(JSON.stringify(event));
  turn += 1;
  if (turn === turns || event.type !== "response.completed") {
    socket.close({ code: 1000, reason: "done" });
    return;
  }
  const calls = event.response.output.filter((item) => item.type === "function_call");
  const outputs = calls.map((call) => ({ type: "function_call_output", call_id: call.call_id, output: "a cat" }));
  ask(outputs.length ? outputs : `once more ${turn}`, event.response.id);
});

ask("look");
