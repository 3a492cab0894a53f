import { match, notEqual, ok } from 'node:assert/strict'
import { hostname } from 'node:os'
import type { Checks } from './checks.ts'

/** Checks of the default identity. */
export const identities: Checks = {
  async 'the default identity names the host and the process, and differs between electors of one process'({
    Elector,
    memoryStore,
  }) {
    const store = memoryStore()
    const [one, other] = [new Elector({ store, election: 'e' }), new Elector({ store, election: 'e' })]
    const prefix = `${hostname()}-${process.pid}-`
    ok(one.identity.startsWith(prefix))
    ok(other.identity.startsWith(prefix))
    match(one.identity.slice(prefix.length), /^[\w-]{8}$/)
    notEqual(other.identity, one.identity)
  },
}
