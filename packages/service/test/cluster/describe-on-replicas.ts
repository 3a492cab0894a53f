import { afterAll, afterEach, beforeAll, beforeEach, describe } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { servePlace } from '../served.ts'
import { ReplicaPlace } from './replica-place.ts'

/** So often the active one ends between two cases, and another takes over. */
const every = 10
/** One in so many of them is killed: then the others wait until its lease is over. */
const killedOf = 2

/**
 * The cases of other suites, which are about a service on a directory there, once more for three replicas on etcd: whichever
 * of them is asked, and whoever is active. Each suite is given as what loads it. Those with cases about changes, and
 * without a count of groups, get one whenever the active one was replaced. Those that leave files behind with which
 * nothing can be started replace nobody, and need no processes.
 */
export function describeOnReplicas(
  suites: Readonly<Record<string, () => Promise<unknown>>>,
  { replaces = true, withChange = false }: { readonly replaces?: boolean; readonly withChange?: boolean } = {},
): void {
  describeWith(etcd, 'on three replicas', (server) => {
    const place = new ReplicaPlace(server)
    place.forks = replaces
    // Cases say while they are loaded where they hold.
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
