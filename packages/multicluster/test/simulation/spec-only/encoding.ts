/**
 * Encodes a model state as bytes, so that all states that behave alike have the same encoding. Times are relative to
 * now, and names are numbered in the order in which they appear. For terms and generations, only the order counts.
 * Every field is named here.
 */
import type { ObservedLease, ObservedVersions } from '../../../../tenure/src/engine/observed-expiry.ts'
import type {
  MultiClusterLease,
  MultiClusterLeaseStatus,
} from '../../../../tenure/src/multicluster/protocol/resource-types.ts'
import type { Heartbeat, Serving } from '../../../src/relay/spec-only-candidate.ts'
import { newPendingCall } from '../../../src/calls/pending-call.ts'
import type { Confirmation, TrackedHeartbeat } from '../../../src/relay/spec-only-heartbeats.ts'
import { knownAttempt, renewTimeOf } from './attempts.ts'
import type { Codec } from './codec.ts'
import { Reader } from './reader.ts'
import {
  clusterNames,
  election,
  identityOf,
  tickMs,
  type Candidate,
  type Claimed,
  type Flight,
  type LateWrite,
  type RelaySlot,
  type Scene,
  type Server,
  type Setup,
} from './scene.ts'
import { StoreFields, type All } from './store-fields.ts'
import { Writer } from './writer.ts'

/** Encodes and decodes model states. */
export class Encoding {
  readonly #setup: Setup
  readonly #writer: Writer

  constructor(setup: Setup) {
    this.#setup = setup
    this.#writer = new Writer(2 * setup.leaseTicks * tickMs)
  }

  /** The bytes are overwritten by the next call. */
  write(scene: Scene, ticks: number): Uint8Array {
    const writer = this.#writer
    writer.begin(ticks)
    const ghosts = scene.ghosts.filter(({ endsAtMs }) => endsAtMs > ticks * tickMs)
    new Fields(writer, this.#setup).scene({ ...scene, ghosts })
    return writer.end()
  }

  read(bytes: Uint8Array, offset: number): Scene {
    const reader = new Reader(bytes, offset)
    const scene = new Fields(reader, this.#setup).scene(reader.anything)
    return { ...scene, names: reader.names }
  }
}

class Fields {
  readonly #codec: Codec
  readonly #store: StoreFields
  readonly #setup: Setup

  constructor(codec: Codec, setup: Setup) {
    this.#codec = codec
    this.#store = new StoreFields(codec)
    this.#setup = setup
  }

  scene(scene: Scene): Scene {
    const codec = this.#codec
    codec.at('running')
    const before = {
      budget: codec.small(scene.budget),
      dawn: codec.flag(scene.dawn),
      server: this.#server(scene.server),
      believed: { term: codec.term(scene.believed.term), who: codec.small(scene.believed.who + 1) - 1 },
      resources: clusterNames.map((_, cluster) => {
        return codec.maybe(scene.resources[cluster], (resource) => this.#resource(resource, cluster))
      }),
      candidates: this.#setup.candidates.map((cluster, who) => {
        return this.#candidate(scene.candidates[who] as Candidate, who, cluster)
      }),
      ghosts: codec.each(scene.ghosts, (ghost) => ({
        term: codec.term(ghost.term),
        endsAtMs: codec.due(ghost.endsAtMs),
      })),
      orphans: codec.each(scene.orphans, (orphan) => this.#store.call(orphan) as Claimed),
      lateWrites: codec.each(scene.lateWrites, (late) => this.#lateWrite(late)),
    }
    const begun = this.#setup.relays.map(({ cluster, isFirst }, which) => {
      return this.#relay(scene.relays[which] as RelaySlot, { cluster, isFirst }, before.resources[cluster])
    })
    // This comes last, when all versions that may be observed again are known. All other versions are never matched
    // again.
    const relays = begun.map((slot, which): RelaySlot => {
      codec.at(slot.life)
      const past = codec.matchable((scene.relays[which] as RelaySlot).seen.seen)
      const seen = codec.each(past, ({ key, atMs }) => ({ key: codec.sight(key), atMs: codec.moment(atMs) }))
      return { ...slot, seen: { ...slot.seen, seen } }
    })
    return { ...before, relays, names: scene.names } satisfies All<Scene>
  }

  #server(server: Server): Server {
    const codec = this.#codec
    return {
      record: codec.maybe(server.record, (record) => this.#store.record(record)),
      highestTerm: codec.term(server.highestTerm),
      lastDurationMs: codec.maybe(server.lastDurationMs, (ms) => this.#codec.number(ms)),
      endsAtMs: codec.due(server.endsAtMs),
    } satisfies All<Server>
  }

  #resource(resource: MultiClusterLease, cluster: number): MultiClusterLease {
    const codec = this.#codec
    const uid = codec.name(resource.uid)
    const generation = codec.generation(cluster, resource.generation)
    const holderIdentity = codec.word(resource.spec.holderIdentity ?? '')
    knownAttempt(cluster, uid, holderIdentity, generation)
    return {
      namespace: 'n',
      name: election,
      election: undefined,
      uid,
      generation,
      resourceVersion: codec.name(resource.resourceVersion),
      spec: {
        holderIdentity,
        leaseDurationSeconds: (this.#setup.leaseTicks * tickMs) / 1000,
        renewTime: renewTimeOf(generation),
        requests: {},
      },
      status: this.#status(resource.status, cluster),
    } satisfies All<MultiClusterLease>
  }

  /**
   * Encodes an outdated copy of a resource. A write that is based on it would fail, so only its identity and its
   * heartbeat still matter.
   */
  #outdated(resource: MultiClusterLease, cluster: number): MultiClusterLease {
    const codec = this.#codec
    const uid = codec.name(resource.uid)
    const generation = codec.generation(cluster, resource.generation)
    const holderIdentity = codec.word(resource.spec.holderIdentity ?? '')
    const spec = { holderIdentity, renewTime: renewTimeOf(generation), requests: {} }
    const of = { namespace: 'n', name: election, election: undefined, uid, generation }
    return { ...of, resourceVersion: 'outdated', spec, status: { answers: {} } }
  }

  #status(status: MultiClusterLeaseStatus, cluster: number): MultiClusterLeaseStatus {
    const codec = this.#codec
    const leader = codec.maybe(status.leader, (one) => codec.word(one))
    return {
      leader,
      globalHolderIdentity: leader,
      cluster: codec.maybe(status.cluster, (one) => codec.word(one)),
      term: codec.maybe(status.term, (term) => codec.term(term)),
      observedGeneration: codec.maybe(status.observedGeneration, (one) => codec.generation(cluster, one)),
      record: codec.maybe(status.record, (record) => this.#store.relayed(record, cluster)),
      // No decision depends on these fields.
      acquireTime: undefined,
      renewTime: undefined,
      leaseDurationSeconds: undefined,
      conditions: undefined,
      silent: undefined,
      answers: {},
    } satisfies All<MultiClusterLeaseStatus>
  }

  #candidate(candidate: Candidate, who: number, cluster: number): Candidate {
    const codec = this.#codec
    const life = codec.word(candidate.life)
    const waits = codec.maybe(candidate.waits, (one) => ({
      uid: codec.name(one.uid),
      generation: codec.generation(cluster, one.generation),
      endsAtMs: codec.due(one.endsAtMs),
    }))
    const led = codec.maybe(candidate.term === 0 ? undefined : candidate, (one) => ({
      ...one,
      term: codec.term(one.term),
      confirmedAtMs: codec.moment(one.confirmedAtMs),
    }))
    const leaseMs = this.#setup.leaseTicks * tickMs
    const observed = codec.word(candidate.observed)
    const isOther = observed !== '' && observed !== identityOf(who)
    return {
      life,
      waits,
      term: led?.term ?? 0,
      confirmedAtMs: led?.confirmedAtMs ?? 0,
      nextAtMs: codec.due(waits ? 0 : candidate.nextAtMs),
      observed,
      // A candidate uses the time of its observation only if it observes another leader.
      observedVersion: isOther ? codec.name(candidate.observedVersion) : '',
      observedAtMs: isOther ? codec.due(candidate.observedAtMs + leaseMs) - leaseMs : 0,
    } satisfies All<Candidate>
  }

  #relay(
    slot: RelaySlot,
    { cluster, isFirst }: Setup['relays'][number],
    actual: MultiClusterLease | undefined,
  ): RelaySlot {
    const codec = this.#codec
    const life = codec.word(slot.life)
    codec.at(life)
    const seen = this.#sights(slot.seen)
    const isGone = codec.flag(slot.goneVersion !== undefined && slot.goneVersion === slot.seen.view?.record?.version)
    const isCurrent = codec.flag(
      slot.resource !== undefined && slot.resource.resourceVersion === actual?.resourceVersion,
    )
    const confirmation = codec.maybe(slot.beats.confirmation, (one) => this.#confirmation(one, cluster))
    // A heartbeat is done if there is nothing to confirm and nobody waits for it. It is then never served again.
    const { current: tracked } = slot.beats
    const isOver = codec.flag(tracked?.state === 'done' && !slot.beats.confirmation && tracked.endsAtMs <= 0)
    const current = codec.maybe(slot.beats.current, (one) => this.#tracked(one, cluster, isFirst, isOver))
    return {
      life,
      seen,
      goneVersion: isGone ? seen.view?.record?.version : undefined,
      resource: isCurrent ? actual : codec.maybe(slot.resource, (one) => this.#outdated(one, cluster)),
      beats: { current, confirmation } satisfies All<RelaySlot['beats']>,
      serving: codec.maybe(slot.serving, (one) => this.#serving(one, current?.heartbeat as Heartbeat)),
      flight: codec.maybe(slot.flight, (one) => this.#flight(one)),
      busyUntilMs: codec.due(slot.busyUntilMs),
    } satisfies All<RelaySlot>
  }

  #sights(seen: ObservedVersions): ObservedVersions {
    const codec = this.#codec
    return {
      view: codec.maybe(seen.view, (view) => this.#view(view)),
      seen: [],
      // In this model no version is ever evicted, so the confirmed version is always among the observed ones.
      confirmed: undefined,
      highestTerm: codec.term(seen.highestTerm),
      lastDurationMs: this.#codec.number(seen.lastDurationMs),
    } satisfies All<ObservedVersions>
  }

  #view(view: ObservedLease): ObservedLease {
    const codec = this.#codec
    const isJudged = this.#setup.expiry === 'observed'
    return {
      record: codec.maybe(view.record, (record) => this.#store.record(record)),
      seenAtMs: isJudged ? codec.moment(view.seenAtMs) : 0,
      holdsForMs: this.#codec.number(view.holdsForMs),
    } satisfies All<ObservedLease>
  }

  #heartbeat(heartbeat: Heartbeat, cluster: number): Heartbeat {
    const generation = this.#codec.generation(cluster, heartbeat.generation)
    return {
      identity: this.#codec.word(heartbeat.identity),
      renewTime: renewTimeOf(generation),
      generation,
      leaseDurationMs: this.#setup.leaseTicks * tickMs,
    } satisfies All<Heartbeat>
  }

  #tracked(tracked: TrackedHeartbeat, cluster: number, isFirst: boolean, isOver: boolean): TrackedHeartbeat {
    const codec = this.#codec
    const state = codec.word(tracked.state)
    const leaseDurationMs = this.#setup.leaseTicks * tickMs
    return {
      heartbeat: this.#heartbeat(tracked.heartbeat, cluster),
      state,
      // The relay that answers first does not wait, so it never reads this time.
      seenAtMs: isFirst || isOver ? 0 : codec.moment(tracked.seenAtMs),
      endsAtMs: isOver ? 0 : codec.due(tracked.endsAtMs),
      waitMs: newPendingCall(0, 0, leaseDurationMs).waitMs,
      // It only matters whether this is the first try.
      tries: isOver ? 0 : codec.small(Math.min(tracked.tries, 1)),
      tryAtMs: isOver ? 0 : codec.due(tracked.tryAtMs),
      controller: undefined,
    } satisfies All<TrackedHeartbeat>
  }

  #confirmation(confirmation: Confirmation, cluster: number): Confirmation {
    const codec = this.#codec
    return {
      generation: codec.generation(cluster, confirmation.generation),
      identity: codec.word(confirmation.identity),
      term: codec.maybe(confirmation.term, (term) => codec.term(term)),
      sentAtMs: codec.moment(confirmation.sentAtMs),
      sentAtBootMs: codec.bootMoment(confirmation.sentAtBootMs),
      lastsMs: this.#codec.number(confirmation.lastsMs),
    } satisfies All<Confirmation>
  }

  #serving(serving: Serving, heartbeat: Heartbeat): Serving {
    const codec = this.#codec
    return {
      heartbeat,
      readFirst: codec.flag(serving.readFirst),
      steps: codec.small(serving.steps),
      afterTerm: codec.term(serving.afterTerm),
      refusedVersion: codec.maybe(serving.refusedVersion, (version) => codec.name(version)),
    } satisfies All<Serving>
  }

  #flight(flight: Flight): Flight {
    const codec = this.#codec
    return {
      step: this.#store.step(flight.step),
      answer: codec.maybe(flight.answer, (answer) => this.#store.answer(answer)),
    } satisfies All<Flight>
  }

  #lateWrite(late: LateWrite): LateWrite {
    const codec = this.#codec
    const cluster = codec.small(late.cluster)
    return { cluster, over: codec.name(late.over), status: this.#status(late.status, cluster) } satisfies All<LateWrite>
  }
}
