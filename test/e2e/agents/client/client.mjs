// Plays a night of an agent by the client of another make, the TypeScript SDK, and prints the transcript. It is given the calls as JSON, and
// a server: a command to start, or a URL with the token for it.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [calls, at, ...rest] = process.argv.slice(2);
const http = at.startsWith("http");
const transport = http
  ? new StreamableHTTPClientTransport(new URL(at), { requestInit: { headers: { Authorization: "Bearer " + rest[0] } } })
  : new StdioClientTransport({ command: at, args: rest, env: process.env, stderr: "inherit" });
const client = new Client({ name: "night", version: "1" });
await client.connect(transport);
console.log("server", client.getServerVersion().name, JSON.stringify(client.getServerCapabilities()));
for (const tool of (await client.listTools()).tools) {
  console.log("tool", tool.name + ":", Object.keys(tool.inputSchema.properties ?? {}).sort().join(" "));
}
for (const resource of (await client.listResources()).resources) {
  console.log("resource", resource.uri);
}
for (const [name, args] of JSON.parse(calls)) {
  console.log("\n>", name, JSON.stringify(args));
  if (name === "read") {
    console.log(JSON.parse((await client.readResource(args)).contents[0].text).data.says);
    continue;
  }
  // The client checks what comes back against the schema that the tool has declared.
  const got = await client.callTool({ name, arguments: args });
  console.log(got.isError ? got.content[0].text : JSON.stringify(got.structuredContent, null, 1));
}
await client.close();
