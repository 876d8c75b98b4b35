// An OAuth2 token server for the client-credentials grant, on a free port of the loopback interface: oidc-provider, a
// certified OpenID Connect server, with one client and nearly everything else left as it is.
//
//     node token-server.js CLIENT_ID CLIENT_SECRET SCOPE
//
// Says "listening ADDRESS" when it does. Tokens come from /token; whether one is good is told by /token/introspection.
"use strict";

const http = require("node:http");
const { pathToFileURL } = require("node:url");

async function main() {
  // An ES module: NODE_PATH does not apply to its name.
  const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));
  const [client_id, client_secret, scope] = process.argv.slice(2);
  const server = http.createServer();
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const client = { client_id, client_secret, scope, grant_types: ["client_credentials"], redirect_uris: [], response_types: [] };
  const enabled = { enabled: true };
  const features = { clientCredentials: enabled, introspection: enabled, devInteractions: { enabled: false } };
  server.on("request", new Provider(issuer, { clients: [client], scopes: [scope], features }).callback());
  console.log(`listening ${issuer}`);
}

main();
