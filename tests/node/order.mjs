// Places one order by the page's example: its file, the URL of the database, and the order as JSON.
import pg from "pg";

const [example, url, order] = process.argv.slice(2);
const { placeOrder } = await import(example);
const client = new pg.Client({ connectionString: url });
await client.connect();
try {
    await placeOrder(client, JSON.parse(order));
} catch (error) {
    process.stderr.write(`${error.code} ${error.constraint}\n`);
    process.exitCode = 3;
} finally {
    await client.end();
}
