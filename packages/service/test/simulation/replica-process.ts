import { fairWeather, Link } from '../../../testing/src/simulation/link.ts'
import type { Machine } from '../../../testing/src/simulation/machine.ts'
import { Replica, type ReplicaEvent } from '../../src/replication/replica.ts'
import type { LocalGroups } from '../../src/groups/local-groups.ts'
import { activeStore } from '../../src/storage/active-store.ts'
import { newMachine, type Scene } from './scene.ts'

const policy = { minTtlMs: 500, maxTtlMs: 8_000 }

/** One process of a replica. It ends with its machine, and another one takes its place. */
export class ReplicaProcess {
  readonly name: string
  readonly machine: Machine
  readonly link: Link
  readonly replica: Replica
  /** The groups of the newest active term, even if that term has ended, because a call may reach them at any time. */
  groups: LocalGroups | undefined
  /** The newest active term. */
  term = 0
  isStopping = false
  readonly #scene: Scene

  constructor(scene: Scene, name: string) {
    const { world, random, server, leaseMs, driftRatio, keepsCopy } = scene
    this.#scene = scene
    this.name = name
    this.machine = newMachine(scene)
    const weather = fairWeather(random.magnitude(0.3, 15), Infinity)
    this.link = new Link({ world, random: random.fork(), machine: this.machine, server: server.weather, weather })
    const { clock } = this.machine
    const storage = server.storage.through(this.link, clock, () => server.pageMs)
    this.replica = new Replica({
      storage,
      leases: activeStore(server.leases(this.link, clock), storage),
      clock,
      address: `http://${name}`,
      replica: name,
      version: '1',
      leaseMs,
      driftRatio,
      keepsCopy,
      groups: { policy, implicitGroups: true, maxGroups: 100, maxMembersPerGroup: 9, memberTtlMs: 60_000 },
      onOpen: (groups, term) => {
        this.groups = groups
        this.term = term
      },
      onEvent: (event) => this.#heard(event),
    })
    this.replica.start()
  }

  #heard(event: ReplicaEvent): void {
    const { world, timeline, history, server } = this.#scene
    const { counts } = history
    const from = event.type === 'serving' && event.fromCopy ? ' from its copy' : ''
    const why = event.type === 'ended' ? ` ${event.why}` : from
    timeline.add(world.nowMs, this.name, `${event.type} in term ${event.term}${why}`)
    if (event.type === 'elected') counts.elected += 1
    if (event.type === 'serving') counts.served += 1
    if (event.type === 'serving' && event.fromCopy) counts.servedFromCopy += 1
    if (event.type === 'tail-lost') {
      counts.tailsLost += 1
      if (server.storage.counts.tailsLost === 0)
        history.violate('loss', `${this.name} reports missing changes that were never lost`)
    }
    if (event.type !== 'ended') return
    if (event.why === 'lost') counts.termsLost += 1
    if (event.why === 'superseded') counts.termsSuperseded += 1
    if (event.why !== 'fenced') return
    counts.termsFenced += 1
    const { term } = server.storage.head
    if (term > event.term || history.isLossy) return
    history.violate('fenced', `${this.name} was fenced in term ${event.term}, but the head has term ${term}`)
  }
}
