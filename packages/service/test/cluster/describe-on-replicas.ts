import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { etcd } from '../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { servePlace } from '../served.ts'
import { ReplicaPlace } from './replica-place.ts'

/** So often another replica is made the active one, between two cases. */
const every = 4

/**
 * The cases of other suites, which are about a service on a directory there, once more for three replicas on etcd: whichever
 * of them is asked, and whoever is active. Each suite is given as what loads it. Those with cases about changes, and
 * without a count of groups, get one whenever the active one was replaced. Those that leave files behind with which
 * nothing can be started replace nobody.
 */
export function describeOnReplicas(
  suites: Readonly<Record<string, () => Promise<unknown>>>,
  { replaces = true, withChange = false }: { readonly replaces?: boolean; readonly withChange?: boolean } = {},
): void {
  describeWith(etcd, 'on three replicas', (server) => {
    const place = new ReplicaPlace(server)
    // Cases say while they are loaded where they hold.
    servePlace(place.serve)
    beforeAll(() => servePlace(place.serve))
    afterAll(() => servePlace())
    let cases = 0
    afterEach(async () => {
      cases += 1
      if (replaces && cases % every === 0) await place.replaceActive({ withChange })
    })
    for (const [name, load] of Object.entries(suites)) {
      describe(name, async () => void (await load()))
    }
  })
}
