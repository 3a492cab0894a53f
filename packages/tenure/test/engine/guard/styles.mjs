// A process that leads with one of the styles and a guard.
import { createJobs } from '../../../dist/jobs/index.js'
import { lead, Manager } from '../../../dist/index.js'
import { LeaderElector } from '../../../dist/api/kubernetes.js'
import { openStore } from '../../../dist/stores/index.js'

/** @type {{ url: string, style: string, election: string }} */
const { url, style, election } = JSON.parse(process.argv[2] ?? '')
const options = { store: await openStore(url), releaseOnCrash: true, log: /** @type {const} */ (false) }
const forever = () => {
  process.send?.({ type: 'leads' })
  return new Promise(() => setInterval(() => undefined, 1_000))
}

/** @type {Record<string, () => unknown>} */
const styles = {
  lead: () => lead({ ...options, election }, forever),
  Manager: async () => {
    const lease = new Manager({ ...options, election }).start()
    while (!lease.isLeader()) await new Promise((resolve) => setTimeout(resolve, 10))
    await forever()
  },
  LeaderElector: () => {
    const [leaseNamespace = '', leaseName = ''] = election.split('/')
    const callbacks = { onStartedLeading: async () => void (await forever()) }
    return new LeaderElector({ ...options, leaseName, leaseNamespace, identity: 'a', callbacks }).run()
  },
  createJobs: () => createJobs(options).tryRun(election, async () => void (await forever())),
}
void styles[style]?.()
