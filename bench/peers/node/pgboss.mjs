// pg-boss: large batches, two at a time, fetched without a pause while they are full.
import { PgBoss } from "pg-boss";
import { all, BATCH, done, messages, mode, payload, ready, seconds, send, url } from "./line.mjs";

const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false });
boss.on("error", (error) => console.error(error));
await boss.start();

if (mode === "fill") {
  await boss.createQueue("mail");
  await boss.deleteAllJobs("mail");
  for (let first = 0; first < messages; first += BATCH) {
    const count = Math.min(BATCH, messages - first);
    await boss.insert(
      "mail",
      Array.from({ length: count }, (_, place) => ({ data: payload(first + place) })),
    );
  }
} else {
  await ready();
  const options = seconds
    ? { batchSize: 25, localConcurrency: 4 }
    : { batchSize: 1000, localConcurrency: 2 };
  await boss.work(
    "mail",
    { ...options, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 },
    (jobs) => Promise.all(jobs.map(send)),
  );
  await all;
  await done();
}
await boss.stop({ graceful: false });
process.exit(0);
