import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { servePlace } from '../served.ts'
import { ReplicaPlace } from './replica-place.ts'

/** The active replica is ended once per this many cases, and another one takes over. */
const every = 10
/** One of this many is killed. The others then wait until its lease has expired. */
const killedOf = 2

/**
 * Runs the cases of other suites, which test a service on a directory, again on three replicas on etcd: whichever
 * replica is called, and whichever is active. Each suite is given as a function that loads it. With `withChange`, a
 * change follows each replacement of the active replica; this is for suites with cases about changes and without a
 * count of groups. Suites that leave files behind with which nothing can be started set `replaces` to false, and then
 * need no processes.
 */
export function describeOnReplicas(
  suites: Readonly<Record<string, () => Promise<unknown>>>,
  { replaces = true, withChange = false }: { readonly replaces?: boolean; readonly withChange?: boolean } = {},
): void {
  describeWith(etcd, 'on three replicas', (server) => {
    const place = new ReplicaPlace(server)
    place.forks = replaces
    // Cases decide while they are loaded whether they apply to this place.
    servePlace(place.serve)
    beforeAll(() => servePlace(place.serve))
    afterAll(() => servePlace())
    let cases = 0
    beforeEach(async () => {
      cases += 1
      if (replaces && cases % every === 0) {
        const isKilled = cases % (every * killedOf) === every
        await place.replaceActive(isKilled ? 'killed' : 'stopped', { withChange })
      }
      place.forks = false
    })
    afterEach(() => {
      place.forks = replaces
    })
    for (const [name, load] of Object.entries(suites)) {
      describe(name, async () => void (await load()))
    }
  })
}
