/**
 * The same checks for calls that followers forward to the active replica, and for data that arrives on a connection.
 * All checks run in virtual time.
 */
import { deepStrictEqual, ok, strictEqual } from 'node:assert'
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { fakeClock } from '@tenure/testing'
import type { PeerChanges } from '../../src/replication/peer-server.ts'
import type { ActiveReplica, ActiveReplicaSource } from '../../src/replication/active-replica.ts'
import type { GroupChange, ChangeListener, GroupState, LeaseView } from '../../src/groups/port.ts'
import type { LocalGroups } from '../../src/groups/local-groups.ts'
import { positionOf } from '../../src/storage/position.ts'
import type { Check, Modules } from './checks.ts'
import { Loop } from './fake-event-loop.ts'

const nextTurn = () => new Promise<void>((resolve) => void setImmediate(resolve))
const position = positionOf({ restores: 0, term: 1, seq: 1 })
const standing: GroupState = { granted: true, lease: undefined, highestTerm: 1, freeInMs: 0, seq: 1 }

/** A connection between replicas, without a network. */
class LinkSocket extends EventEmitter {
  destroyed = false
  writableLength = 0
  isPaused = false
  readonly #written: Buffer[] = []

  setNoDelay(): void {}

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    this.isPaused = false
  }

  destroy(): void {
    this.destroyed = true
  }

  write(frame: Buffer): void {
    this.#written.push(frame)
  }

  /** Makes the other side send these messages, all in one packet. */
  receive(...messages: readonly object[]): void {
    this.emit('data', Buffer.concat(messages.map(frameOf)))
  }

  /** Every answer that was sent: the id of the call, its outcome, and its value. */
  get answers(): [number, number, unknown][] {
    return this.#written.flatMap((frame) => {
      const { answers = [] } = JSON.parse(frame.toString('utf8', 4)) as { answers?: [number, number, unknown][] }
      return answers
    })
  }
}

function frameOf(message: object): Buffer {
  const json = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(4)
  head.writeUInt32BE(json.length)
  return Buffer.concat([head, json])
}

/** The active replica, as one follower reaches it. */
function activeScene({ fairQueue, linkPeer }: Modules, groups: Partial<LocalGroups>, work: (units: number) => void) {
  const loop = new Loop()
  const socket = new LinkSocket()
  const queue = new fairQueue.FairQueue(loop)
  const place = { kind: 'local', term: 1, groups: groups as LocalGroups } as const
  const clock = fakeClock()
  const peer = new linkPeer.PeerSession(socket as unknown as Socket, Buffer.alloc(0), {
    activeReplicas: { now: () => place, changed: async () => {} },
    terms: { highest: 1, observe: () => true },
    clock,
    changes: {} as PeerChanges,
    fairQueue: queue,
    budget: { work: (_subject, units) => work(units), deliver: () => true },
    proof: 'proof',
    greetingMs: 5_000,
    replicas: () => ({ active: undefined, followers: [] }),
    onKnown() {},
    onClose() {},
  })
  socket.receive({ term: 1, proof: 'proof', from: ['follower', 'http://127.0.0.1:1'] })
  return { loop, queue, socket, peer, clock }
}

const callMs = 500
const renewal = (id: number, nodeId: string) => [
  id,
  'renew',
  [{ groupId: 'g', nodeId, term: 1, extendByMs: 1 }],
  callMs,
]

export const linkChecks: readonly Check[] = [
  {
    name: 'a forwarded call waits for at most one round of the callers of all replicas',
    async run(modules) {
      const order: string[] = []
      const groups = {
        renew: ({ nodeId }: { nodeId: string }) => {
          loop.ms += 0.2
          order.push(nodeId)
          return standing
        },
      }
      const { loop, queue, socket, peer } = activeScene(modules, groups, () => {})
      // The same subject also calls the active replica directly. All its calls count toward one share of the time.
      for (let count = 0; count < 200; count++)
        queue.runLater(
          'many',
          loop.work(0.2, () => void order.push('many')),
        )
      const ids = Array.from({ length: 301 }, (_, index) => index)
      const subjectOf = (id: number) => (id === 300 ? 'one' : 'many')
      socket.receive({
        term: 1,
        callers: ids.map((id) => [id, subjectOf(id), '']),
        calls: ids.map((id) => renewal(id, subjectOf(id))),
      })
      while (!loop.isIdle) loop.turn()
      await nextTurn()
      strictEqual(order.length, 501)
      ok(order.indexOf('one') <= 10, `${order.indexOf('one')} calls of another caller came first`)
      strictEqual(socket.answers.length, 301)
      peer.close()
    },
  },
  {
    name: 'a call whose caller no longer waits is not begun when its turn comes',
    async run(modules) {
      let renewed = 0
      const { loop, queue, socket, peer, clock } = activeScene(
        modules,
        { renew: () => (renewed++, standing) },
        () => {},
      )
      queue.runLater('many', () => {})
      const send = (id: number) => socket.receive({ term: 1, callers: [[id, 'one', '']], calls: [renewal(id, 'one')] })
      send(1)
      await clock.advance(callMs + 1)
      send(2)
      socket.receive({ term: 1, cancels: [2] })
      while (!loop.isIdle) loop.turn()
      strictEqual(renewed, 0)
      queue.runLater('many', () => {})
      send(3)
      while (!loop.isIdle) loop.turn()
      strictEqual(renewed, 1)
      peer.close()
    },
  },
  {
    name: 'the caller of a follower is charged for a list of members before the list is built',
    async run(modules) {
      const charged: number[] = []
      let made = 0
      const groups = { memberBytes: () => 4_096_000, members: async () => (made++, []) }
      const { loop, socket, peer } = activeScene(modules, groups, (units) => {
        charged.push(units)
        if (charged.length > 1) throw new Error('used up')
      })
      const calls = [1, 2, 3].map((id) => [id, 'members', ['g'], callMs])
      socket.receive({ term: 1, callers: [1, 2, 3].map((id) => [id, 'one', '']), calls })
      while (!loop.isIdle) loop.turn()
      await nextTurn()
      await nextTurn()
      deepStrictEqual([charged, made], [[1_000, 1_000, 1_000], 1])
      deepStrictEqual(
        socket.answers.map(([id, how]) => [id, how]).toSorted(([one = 0], [other = 0]) => one - other),
        [
          [1, 0],
          [2, 1],
          [3, 1],
        ],
      )
      peer.close()
    },
  },
  {
    name: 'messages between replicas are read for at most two milliseconds before other work runs',
    async run({ linkConnection }) {
      const socket = new LinkSocket()
      const clock = fakeClock()
      let ms = 0
      let read = 0
      const connection = new linkConnection.PeerConnection(socket as unknown as Socket, Buffer.alloc(0), {
        clock: { ...clock, monotonicMs: () => ms },
        term: () => 1,
        onMessage: () => {
          read += 1
          ms += 0.5
        },
        onClose: () => {},
      })
      socket.receive(...Array.from({ length: 50 }, () => ({ term: 1 })))
      deepStrictEqual([read, socket.isPaused], [4, true])
      for (let turns = 0; turns < 20; turns++) {
        const before = read
        await nextTurn()
        ok(read - before <= 4, `${read - before} messages in one turn`)
      }
      deepStrictEqual([read, socket.isPaused], [50, false])
      connection.close()
    },
  },
  {
    name: 'a follower bounds the waiting calls per subject while no replica is active',
    async run({ activeCalls }) {
      const nowhere: ActiveReplica = { kind: 'unknown' }
      const places: ActiveReplicaSource = { now: () => nowhere, changed: () => new Promise(() => {}) }
      const options = { activeReplicas: places, clock: fakeClock() } as unknown as ConstructorParameters<
        Modules['activeCalls']['ActiveCalls']
      >[0]
      const calls = new activeCalls.ActiveCalls(options)
      const refused = { many: 0, one: 0 }
      const ask = (subject: keyof typeof refused) => {
        const call = { runLocally: () => standing, isRepeatable: true }
        const failed = ({ code }: { code: string }) => void (refused[subject] += code === 'RATE_LIMITED' ? 1 : 0)
        void (calls.ask('leader', ['g'], call, { subject }) as Promise<unknown>).catch(failed)
      }
      for (let count = 0; count < 8_200; count++) ask('many')
      ask('one')
      await nextTurn()
      deepStrictEqual(refused, { many: 8, one: 0 })
      calls.close()
    },
  },
  {
    name: 'groups with long texts are forwarded a page at a time',
    async run({ linkVerbs }) {
      const metadata = JSON.stringify({ text: 'x'.repeat(4_000) })
      const lease = { metadata, checkpoint: '\u0001'.repeat(680) } as LeaseView
      const groups = { leaders: (ids: readonly string[]) => ids.map(() => ({ ...standing, lease })), position }
      const ids = Array.from({ length: 1_000 }, (_, index) => `g-${index}`)
      const runner = linkVerbs.parseCall('leaders', [ids])
      const answer = await runner?.run(groups as unknown as LocalGroups, new AbortController().signal, undefined)
      const { standings } = answer as { standings: readonly GroupState[] }
      ok(standings.length > 10)
      const bytes = JSON.stringify(answer).length
      ok(bytes < 300_000, `an answer is ${bytes} bytes long`)
    },
  },
  {
    name: 'renewals that are sent to followers are charged by size to the subject that renews',
    async run({ linkStream }) {
      const told: string[] = []
      const charged: [string, number][] = []
      let follower: ChangeListener | undefined
      const changes = {
        listen: (given: ChangeListener) => ((follower = given), () => {}),
        feed: { after: () => [], position },
      } as unknown as PeerChanges
      const connection = { unsentBytes: 0, queue: (_part: string, json: string) => void told.push(json) }
      const stream = new linkStream.PeerStream(connection as never, {
        changes,
        budget: { work: () => {}, deliver: (subject, count) => charged.push([subject, count]) < 3 },
        groups: {} as LocalGroups,
        renewals: true,
      })
      await stream.begin(position)
      const lease = { metadata: 'x'.repeat(4_096), checkpoint: '' } as LeaseView
      const change: GroupChange = { type: 'RENEWED', groupId: 'g', lease, atMs: 0, subject: 'leader' }
      for (let count = 0; count < 4; count++) follower?.onRenewal?.(change)
      deepStrictEqual(
        charged,
        Array.from({ length: 4 }, () => ['leader', 5]),
      )
      strictEqual(told.filter((json) => json.includes('renewal')).length, 2)
    },
  },
  {
    name: 'the parser receives a kilobyte of a connection at a time, and nothing while the connection is held',
    run({ socketIntake }) {
      const socket = Object.assign(new EventEmitter(), { destroyed: false, pause: () => {}, resume: () => {} })
      const parsed: Buffer[] = []
      socket.on('data', (chunk: Buffer) => {
        parsed.push(chunk)
        intake.note()
        intake.hold()
      })
      const intake = new socketIntake.SocketIntake(socket as unknown as Socket)
      intake.attach()
      const sent = Buffer.from(Array.from({ length: 65_536 }, (_, index) => index % 251))
      socket.emit('data', sent)
      strictEqual(parsed.length, 1)
      for (let count = 1; parsed.length < 64 && count < 100; count++) intake.release()
      ok(parsed.every(({ length }) => length === 1_024))
      ok(Buffer.concat(parsed).equals(sent))
    },
  },
]
