// Reads mails, one in base64 a line, and writes the parts that postal-mime finds, as a line of JSON.
import { createInterface } from "node:readline";
import PostalMime from "postal-mime";

const boxes = (found) => (found ?? []).map(({ name, address }) => [name, address]);

for await (const line of createInterface({ input: process.stdin })) {
    const mail = await PostalMime.parse(Buffer.from(line, "base64"), { attachmentEncoding: "base64" });
    process.stdout.write(
        JSON.stringify({
            sender: boxes([mail.from])[0],
            to: boxes(mail.to),
            cc: boxes(mail.cc),
            reply_to: boxes(mail.replyTo),
            subject: mail.subject ?? null,
            text: mail.text ?? null,
            html: mail.html ?? null,
            files: mail.attachments.map(({ filename, content, contentId }) => [
                filename,
                content,
                contentId?.replace(/^<|>$/g, "") ?? null,
            ]),
            headers: mail.headers.map(({ key }) => key).sort(),
        }) + "\n",
    );
}
