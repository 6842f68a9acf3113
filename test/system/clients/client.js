// SPDX-License-Identifier: BSD-3-Clause

// memcache-client over TLS, for test_tls_clients.py: node client.js HOST:PORT CA. Ends with status 0
// and "ok", or says what went wrong.
"use strict";

const assert = require("assert");
const fs = require("fs");
const { MemcacheClient } = require("memcache-client");

async function main(server, authority) {
  const client = new MemcacheClient({
    server,
    cmdTimeout: 20000,
    tls: { ca: fs.readFileSync(authority) },
  });
  await client.set("k", "value");
  assert.strictEqual((await client.get("k")).value, "value");
  await client.delete("k");
  assert.strictEqual(await client.get("k"), undefined);
  const large = Buffer.alloc(1000000);
  for (let at = 0; at < large.length; at++) large[at] = at * 7;
  await client.set("large", large);
  assert(large.equals((await client.get("large")).value));
  const keys = Array.from({ length: 1000 }, (_, number) => `key${number}`);
  await Promise.all(keys.map((key) => client.set(key, key)));
  const found = await client.get(keys.slice(0, 100));
  for (const key of keys.slice(0, 100)) assert.strictEqual(found[key].value, key);
  const values = await Promise.all(keys.map((key) => client.get(key)));
  values.forEach((found, number) => assert.strictEqual(found.value, keys[number]));
  client.shutdown();
}

main(process.argv[2], process.argv[3]).then(
  () => console.log("ok"),
  (error) => {
    console.error(String(error));
    process.exit(1);
  },
);
