// What every worker here says and hears; see bench/measuring/children.py.
import { createInterface } from "node:readline";

export const [mode, url, number, latency] = process.argv.slice(2);
export const messages = Number(number);
export const seconds = Number(latency);
export const BATCH = 1000;

export const payload = (n) => ({
  template: "receipt",
  to_addresses: [`reader${n}@example.com`],
  parameters: { order_number: `A-${n}`, total: "12.00" },
});

const heard = createInterface({ input: process.stdin });

const say = (told) => process.stdout.write(JSON.stringify(told) + "\n");

export const ready = async () => {
  const started = new Promise((resolve) => heard.once("line", resolve));
  say({ ready: null });
  await started;
};

// Says that all is handed out, and waits for the end of input.
export const done = async () => {
  const ended = new Promise((resolve) => heard.once("close", resolve));
  say({ done: { messages } });
  await ended;
};

let left = messages;
let finish;
export const all = new Promise((resolve) => (finish = resolve));

// What a provider does that takes so long, and nothing else.
export const send = async () => {
  if (seconds) await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  if (--left === 0) finish();
};

// Connections that are open before the clock starts.
export const warm = async (pool, size) => {
  const clients = await Promise.all(Array.from({ length: size }, () => pool.connect()));
  for (const client of clients) client.release();
};
