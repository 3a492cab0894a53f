// A lock written by hand, as in many guides: a key in a bucket whose values expire, created by the leader and updated
// every third of the lease.
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { setTimeout as sleep } from 'node:timers/promises'
import { takeTurns } from './take-turns.js'

const retryMs = 50

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, identity, leaseDurationMs, tell }) {
  const connection = await connect({ servers: new URL(url).host })
  const kv = await new Kvm(connection).create('locks', { ttl: leaseDurationMs })
  const acquire = async () => {
    let revision = 0
    for (; revision === 0;) {
      revision = await kv.create(election, identity).catch(() => 0)
      if (revision === 0) await sleep(retryMs)
    }
    const renew = async () => {
      try {
        revision = await kv.update(election, identity, revision)
        tell('renewed')
      } catch {
        clearInterval(timer)
        tell('lost')
      }
    }
    const timer = setInterval(() => void renew(), leaseDurationMs / 3)
    return async () => {
      clearInterval(timer)
      await kv.delete(election, { previousSeq: revision }).catch(() => undefined)
    }
  }
  return takeTurns(acquire, tell)
}
