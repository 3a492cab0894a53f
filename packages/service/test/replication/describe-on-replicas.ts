import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { servePlace } from '../service-under-test.ts'
import { ReplicaPlace } from './replica-place.ts'

/** After this many cases, the active replica is ended, and another one takes over. */
const every = 10
/**
 * One in this many replaced replicas is killed instead of stopped. The others then wait until its lease has expired.
 */
const killedOf = 2

/**
 * Runs suites that test a service on a directory again, on three replicas on etcd. A case may call any replica, and any
 * replica may be active. Each suite is given as a function that loads it. With `withChange`, a change follows each
 * replacement of the active replica. This is for suites that test changes and do not count groups. Suites that leave
 * files with which no replica could start set `replaces` to false. Their replicas run in the process of the test.
 */
export function describeOnReplicas(
  suites: Readonly<Record<string, () => Promise<unknown>>>,
  { replaces = true, withChange = false }: { readonly replaces?: boolean; readonly withChange?: boolean } = {},
): void {
  describeWith(etcd, 'on three replicas', (server) => {
    const place = new ReplicaPlace(server)
    place.forks = replaces
    // While they are being loaded, cases decide whether they apply to this place.
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
