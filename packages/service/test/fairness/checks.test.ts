import * as connectionRoom from '@tenure/internal/connection-room'
import { test } from 'vitest'
import * as fairQueue from '../../src/fair-queue.ts'
import * as groupBytes from '../../src/groups/group-bytes.ts'
import * as rules from '../../src/groups/rules.ts'
import * as renewalNews from '../../src/groups/renewal-news.ts'
import * as servingClock from '../../src/groups/serving-clock.ts'
import * as requestGate from '../../src/http/request-gate.ts'
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
}

test.for(checks)('$name', ({ run }) => run(modules))
