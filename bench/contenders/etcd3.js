// The election of the etcd3 package.
import { Etcd3 } from 'etcd3'
import { takeTurns } from './take-turns.js'

/** @type {import('./take-turns.js').TakePart} */
export async function takePart({ url, election, identity, leaseDurationMs, tell }) {
  const client = new Etcd3({ hosts: url.replace('etcd:', 'http:') })
  const elections = client.election(election, leaseDurationMs / 1_000)
  const acquire = async () => {
    const campaign = elections.campaign(identity)
    campaign.on('error', () => tell('lost'))
    await campaign.wait()
    return () => campaign.resign()
  }
  return takeTurns(acquire, tell)
}
