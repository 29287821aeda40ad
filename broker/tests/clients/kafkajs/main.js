// The suite of kafkajs. See suite.js for how to call it.

import { CODECS } from "./codecs.js"
import { groupAdmin, rebalance } from "./groups.js"
import * as records from "./records.js"
import { main, skip } from "./suite.js"
import * as transactions from "./transactions.js"

const cases = {
  admin: records.admin,
  "produce-consume": records.produceConsume,
  idempotent: records.idempotent,
  ...Object.fromEntries(Object.keys(CODECS).map((name) => [`codec-${name}`, records.codec(name)])),
  offsets: records.offsets,
  "group-eager": rebalance,
  "group-cooperative": async () => skip("this client has no cooperative assignor"),
  "group-consumer": async () => skip("this client has no new group protocol"),
  "group-static": async () => skip("this client has no static members"),
  "group-admin": groupAdmin,
  txn: transactions.commitAndAbort,
  "txn-offsets": transactions.offsets,
  "txn-fencing": transactions.fencing,
  "agent-stopped": records.agentStopped,
}

await main(cases, { "held-end-txn": transactions.heldEndTxn })
