import * as connectionRoom from '@tenure/internal/connection-limiter'
import { test } from 'vitest'
import * as activeCalls from '../../src/replication/active-calls.ts'
import * as linkConnection from '../../src/replication/peer-connection.ts'
import * as linkPeer from '../../src/replication/peer-session.ts'
import * as linkStream from '../../src/replication/peer-stream.ts'
import * as linkVerbs from '../../src/replication/peer-calls.ts'
import * as fairQueue from '../../src/common/fair-queue.ts'
import * as groupBytes from '../../src/groups/group-bytes.ts'
import * as rules from '../../src/groups/rules.ts'
import * as renewalNews from '../../src/groups/renewal-events.ts'
import * as servingClock from '../../src/groups/serving-clock.ts'
import * as requestGate from '../../src/http/request-gate.ts'
import * as socketIntake from '../../src/http/socket-intake.ts'
import * as deliveries from '../../src/watch/deliveries.ts'
import * as hub from '../../src/watch/hub.ts'
import * as snapshot from '../../src/watch/snapshot.ts'
import { checks } from './checks.ts'

const modules = {
  fairQueue,
  requestGate,
  renewalNews,
  servingClock,
  deliveries,
  hub,
  snapshot,
  rules,
  groupBytes,
  connectionRoom,
  socketIntake,
  linkPeer,
  linkConnection,
  linkStream,
  linkVerbs,
  activeCalls,
}

test.for(checks)('$name', ({ run }) => run(modules))
