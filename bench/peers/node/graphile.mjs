// graphile-worker, with the settings of its page on performance.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import pg from "pg";
import { all, BATCH, done, messages, mode, payload, ready, send, url, warm } from "./line.mjs";

const logger = new Logger(() => () => {});

if (mode === "fill") {
  await runMigrations({ connectionString: url, logger });
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.withPgClient((client) =>
    client.query("TRUNCATE graphile_worker._private_jobs"),
  );
  for (let first = 0; first < messages; first += BATCH) {
    const count = Math.min(BATCH, messages - first);
    await utils.addJobs(
      Array.from({ length: count }, (_, place) => ({
        identifier: "mail",
        payload: payload(first + place),
      })),
    );
  }
  await utils.release();
} else {
  const pgPool = new pg.Pool({ connectionString: url, max: 12 });
  pgPool.on("error", () => {});
  await warm(pgPool, 3);
  await ready();
  const runner = await run({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList: { mail: send },
    preset: {
      worker: {
        concurrentJobs: 100,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  });
  await all;
  await done();
  await runner.stop();
  await pgPool.end();
}
process.exit(0);
