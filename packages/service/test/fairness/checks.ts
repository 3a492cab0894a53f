/**
 * Checks that one caller cannot affect the others. Every mutant must fail one of them. All checks run in virtual time.
 */
import { deepStrictEqual, ok, strictEqual } from 'node:assert'
import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { fakeClock } from '@tenure/testing'
import { Group, GroupLease } from '../../src/groups/in-memory-group.ts'
import type { ChangeListener, Groups, GroupState, LeaseView } from '../../src/groups/port.ts'
import { positionOf } from '../../src/storage/position.ts'
import type { GroupRecord } from '../../src/storage/storage.ts'
import { linkChecks } from './link-checks.ts'
import { Loop } from './fake-event-loop.ts'

/** The modules that are checked: those of the service, or of a mutant. */
export interface Modules {
  readonly fairQueue: typeof import('../../src/common/fair-queue.ts')
  readonly requestGate: typeof import('../../src/http/request-gate.ts')
  readonly renewalNews: typeof import('../../src/groups/renewal-events.ts')
  readonly servingClock: typeof import('../../src/groups/serving-clock.ts')
  readonly deliveries: typeof import('../../src/watch/deliveries.ts')
  readonly hub: typeof import('../../src/watch/hub.ts')
  readonly snapshot: typeof import('../../src/watch/snapshot.ts')
  readonly rules: typeof import('../../src/groups/rules.ts')
  readonly groupBytes: typeof import('../../src/groups/group-bytes.ts')
  readonly connectionRoom: typeof import('@tenure/internal/connection-limiter')
  readonly socketIntake: typeof import('../../src/http/socket-intake.ts')
  readonly linkPeer: typeof import('../../src/replication/peer-session.ts')
  readonly linkConnection: typeof import('../../src/replication/peer-connection.ts')
  readonly linkStream: typeof import('../../src/replication/peer-stream.ts')
  readonly linkVerbs: typeof import('../../src/replication/peer-calls.ts')
  readonly activeCalls: typeof import('../../src/replication/active-calls.ts')
}

export const moduleFiles: { readonly [Name in keyof Modules]: string } = {
  fairQueue: '../../service/src/common/fair-queue.ts',
  requestGate: '../../service/src/http/request-gate.ts',
  renewalNews: '../../service/src/groups/renewal-events.ts',
  servingClock: '../../service/src/groups/serving-clock.ts',
  deliveries: '../../service/src/watch/deliveries.ts',
  hub: '../../service/src/watch/hub.ts',
  snapshot: '../../service/src/watch/snapshot.ts',
  rules: '../../service/src/groups/rules.ts',
  groupBytes: '../../service/src/groups/group-bytes.ts',
  connectionRoom: '../../internal/src/connection-limiter.ts',
  socketIntake: '../../service/src/http/socket-intake.ts',
  linkPeer: '../../service/src/replication/peer-session.ts',
  linkConnection: '../../service/src/replication/peer-connection.ts',
  linkStream: '../../service/src/replication/peer-stream.ts',
  linkVerbs: '../../service/src/replication/peer-calls.ts',
  activeCalls: '../../service/src/replication/active-calls.ts',
}

const position = (seq: number) => positionOf({ restores: 0, term: 1, seq })
const lease: LeaseView = {
  nodeId: 'a',
  attempt: 'a',
  term: 1,
  ttlMs: 5_000,
  remainingMs: 5_000,
  acquiredAtMs: 0,
  renewedAtMs: 0,
  metadata: '{}',
  checkpoint: '',
  version: 'v',
  writeId: undefined,
  successor: undefined,
  instance: undefined,
  ended: false,
}

/** A hub whose deliveries run turn by turn, and the deliveries that its subscribers received. */
function hubScene({ fairQueue, hub }: Modules, { budget = Infinity } = {}) {
  const loop = new Loop()
  const charged = new Map<string, number>()
  let follower: ChangeListener | undefined
  const state = { listen: (given: ChangeListener) => void (follower = given) } as unknown as Groups
  const made = new hub.Hub(state, {
    secret: 'secret',
    position: position(1),
    maxWatchers: 10_000,
    fairQueue: new fairQueue.FairQueue({ nowMs: loop.nowMs, later: loop.later }),
    budget: {
      deliver(subject, count) {
        const taken = charged.get(subject) ?? 0
        if (taken + count > budget) return false
        charged.set(subject, taken + count)
        return true
      },
    },
  })
  let seq = 1
  const subscribe = (subject: string, { renewals = false, groups = ['g'] } = {}) => {
    const told: string[] = []
    const missed: number[] = []
    const subscription = made.subscribe(groups, {
      wantsRenewals: renewals,
      subject,
      notify: (frame) => void told.push(/"type":"(\w+)"/.exec(String(frame().body))?.[1] ?? ''),
      miss: (since) => void missed.push(since.seq),
    })
    return { told, missed, subscription }
  }
  return {
    hub: made,
    loop,
    charged,
    subscribe,
    change: () => {
      seq += 1
      follower?.onChange({ type: 'LEADER_CHANGED', groupId: 'g', lease, atMs: 0, position: position(seq) })
    },
    renew: (subject: string) => follower?.onRenewal?.({ type: 'RENEWED', groupId: 'g', lease, atMs: 0, subject }),
    run: () => {
      while (!loop.isIdle) loop.turn()
    },
  }
}

const campaignClaim = {
  groupId: 'jobs',
  nodeId: 'a',
  attempt: 'a',
  attemptIsOnce: false,
  ttlMs: 5_000,
  metadata: '{}',
  waitMs: 0,
}

const now = {
  monotonicMs: 0,
  wallMs: 0,
  policy: { minTtlMs: 1_000, maxTtlMs: 60_000 },
  versionPrefix: 'run',
  doubtful: false,
  noRoom: undefined,
}

/** A group whose term 5 has ended. */
function endedGroup(more: { readonly checkpoint?: string; readonly metadata?: string } = {}): Group {
  const group = new Group('jobs', 5)
  const grant = { term: 5, nodeId: 'a', attempt: 'a', metadata: '{"zone":1}', acquiredAtMs: 0, ttlMs: 1, ...more }
  group.lease = new GroupLease(group, grant, 0, { stalledMs: 0, startMs: 0 })
  group.lease.end = 'resigned'
  group.checkpoint = more.checkpoint ?? ''
  return group
}

/** A connection limiter, and connections that record whether they were closed. */
function roomScene({ connectionRoom }: Modules) {
  let ms = 0
  const room = new connectionRoom.ConnectionLimiter({
    most: 100,
    mostUnknown: 50,
    mostPerAddress: 80,
    mostUnknownPerAddress: 10,
    unknownIdleMs: 5_000,
    nowMs: () => ms,
  })
  const connect = (remoteAddress: string) => {
    const socket = Object.assign(new EventEmitter(), {
      remoteAddress,
      bytesRead: 0,
      isClosed: false,
      destroy() {
        if (this.isClosed) return
        this.isClosed = true
        socket.emit('close')
      },
    })
    room.add(socket as unknown as Socket)
    return socket as unknown as Socket & { readonly isClosed: boolean }
  }
  const known = (address: string) => {
    const socket = connect(address)
    room.identify(socket)
    return socket
  }
  return { room, connect, known, pass: (more: number) => void (ms += more) }
}

const count = (sockets: readonly { readonly isClosed: boolean }[]) => sockets.filter(({ isClosed }) => !isClosed).length
const many = <T>(length: number, make: (index: number) => T) => Array.from({ length }, (_, index) => make(index))

/** Counts how many groups with long metadata a subject may create, if each is charged when it is written. */
function fill(
  { rules, groupBytes }: Modules,
  max: number,
  maxPerSubject: number,
  subjectOf: (index: number) => string,
) {
  const bytes = new groupBytes.GroupBytes(max, maxPerSubject)
  const room = (group: Group, record: GroupRecord) => bytes.refusalOf(group, record)
  const metadata = JSON.stringify({ text: 'x'.repeat(4_000) })
  for (let count = 0; count < 10_000; count++) {
    const group = new Group(`group-${count}`, 0)
    const claim = { ...campaignClaim, metadata, subject: subjectOf(count), isFirst: true }
    const ruling = rules.judgeCampaign(group, claim, { ...now, room })
    if (!('write' in ruling)) return { count, bytes, refusal: ruling.answer }
    bytes.begin(group, ruling.write.record)
  }
  return { count: Infinity, bytes, refusal: undefined }
}

export interface Check {
  readonly name: string
  run(modules: Modules): void | Promise<void>
}

export const checks: readonly Check[] = [
  ...linkChecks,
  {
    name: 'a caller with one request waits for at most one round of the other callers',
    run({ fairQueue }) {
      const loop = new Loop()
      const queue = new fairQueue.FairQueue(loop)
      let done = 0
      for (let count = 0; count < 500; count++)
        queue.runLater(
          'many',
          loop.work(0.2, () => void (done += 1)),
        )
      let before = -1
      queue.run(
        'one',
        loop.work(0.2, () => void (before = done)),
      )
      while (!loop.isIdle) loop.turn()
      ok(before <= 10, `${before} requests from another caller came first`)
    },
  },
  {
    name: 'a turn of the event loop ends after two milliseconds of work',
    run({ fairQueue }) {
      const loop = new Loop()
      const queue = new fairQueue.FairQueue(loop)
      for (let count = 0; count < 500; count++) queue.run(`lane-${count % 7}`, loop.work(0.25))
      let longestMs = 0
      while (!loop.isIdle) longestMs = Math.max(longestMs, loop.turn())
      ok(longestMs <= 2.25, `a turn took ${longestMs} ms`)
      strictEqual(queue.waiting, 0)
    },
  },
  {
    name: 'a subject with slow requests waits for subjects with quick requests',
    run({ fairQueue }) {
      const loop = new Loop()
      const queue = new fairQueue.FairQueue(loop)
      const order: string[] = []
      queue.runLater('first', () => {})
      for (let count = 0; count < 20; count++) {
        queue.run(
          'slow',
          loop.work(10, () => void order.push('slow')),
        )
        queue.run(
          'quick',
          loop.work(0.5, () => void order.push('quick')),
        )
      }
      while (!loop.isIdle) loop.turn()
      const slow = order.slice(0, order.lastIndexOf('quick')).filter((name) => name === 'slow').length
      ok(slow <= 2, `${slow} long requests came before the last short one`)
    },
  },
  {
    name: 'all callers without an identity together get less time than one subject',
    run({ fairQueue }) {
      const loop = new Loop()
      const queue = new fairQueue.FairQueue(loop)
      const order: string[] = []
      queue.runLater('first', () => {})
      for (let count = 0; count < 200; count++) {
        queue.run(
          fairQueue.anonymous,
          loop.work(0.5, () => void order.push('anonymous')),
        )
        queue.run(
          'subject',
          loop.work(0.5, () => void order.push('subject')),
        )
      }
      while (!loop.isIdle) loop.turn()
      const anonymous = order.slice(0, order.lastIndexOf('subject')).filter((name) => name === 'anonymous').length
      ok(anonymous <= 70, `${anonymous} of 200`)
    },
  },
  {
    name: 'only one of the requests that arrive in one packet begins in each turn',
    run({ fairQueue, requestGate }) {
      const loop = new Loop()
      const queue = new fairQueue.FairQueue(loop)
      const gate = new requestGate.RequestGate(queue, () => 'subject')
      let begun = 0
      const handle = gate.guard(() => void (begun += 1))
      const { socket, send } = packetOf(handle)
      send(20)
      strictEqual(begun, 1)
      ok(socket.isPaused)
      for (let count = 2; count <= 20; count++) {
        loop.turn()
        ok(begun <= count, `${begun} requests began in ${count} turns`)
      }
      while (!loop.isIdle) loop.turn()
      strictEqual(begun, 20)
      ok(!socket.isPaused)
    },
  },
  {
    name: 'a connection is not read while requests of its subject wait, but other connections are',
    run({ fairQueue, requestGate }) {
      const loop = new Loop()
      const queue = new fairQueue.FairQueue(loop)
      const subjects = new WeakMap<object, string>()
      const gate = new requestGate.RequestGate(queue, ({ socket }) => subjects.get(socket) ?? '')
      const handle = gate.guard(loop.work(0.5))
      const open = (subject: string) => {
        const packet = packetOf(handle)
        subjects.set(packet.socket, subject)
        return packet
      }
      const all = many(40, () => open('many'))
      const other = open('other')
      for (const { send } of [...all, other]) send(1)
      let mostHeld = 0
      while (!loop.isIdle) {
        loop.turn()
        mostHeld = Math.max(mostHeld, all.filter(({ socket }) => socket.isPaused).length)
        ok(!other.socket.isPaused)
      }
      ok(mostHeld >= 4, `${mostHeld} connections were held at once`)
      strictEqual(all.filter(({ socket }) => socket.isPaused).length, 0)
    },
  },
  {
    name: 'a connection with more than 256 unanswered requests is refused and closed',
    run({ fairQueue, requestGate }) {
      const loop = new Loop()
      const gate = new requestGate.RequestGate(new fairQueue.FairQueue(loop), () => 'subject')
      let begun = 0
      const { responses, send } = packetOf(gate.guard(() => void (begun += 1)))
      send(400)
      while (!loop.isIdle) loop.turn()
      strictEqual(begun, 256)
      deepStrictEqual(
        responses.flatMap(({ head }, index) => (head ? [[index, head.status, head.headers['connection']]] : [])),
        [[256, 429, 'close']],
      )
    },
  },
  {
    name: 'a connection with too many unanswered requests is no longer read, even if none of them waits for its turn',
    run({ fairQueue, requestGate }) {
      const loop = new Loop()
      const gate = new requestGate.RequestGate(new fairQueue.FairQueue(loop), () => 'subject')
      const { socket, send } = packetOf(gate.guard(() => {}))
      for (let count = 0; count < 256; count++) {
        send(1)
        while (!loop.isIdle) loop.turn()
      }
      ok(!socket.isPaused)
      send(1)
      ok(socket.isPaused, 'the connection is still read after request 257')
      while (!loop.isIdle) loop.turn()
      ok(socket.isPaused, 'the connection is read again')
    },
  },
  {
    name: 'events are delivered in batches of two milliseconds',
    run({ deliveries }) {
      const loop = new Loop()
      const queue = { runLater: (_lane: unknown, work: () => void) => (loop.later(work), true) }
      const made = new deliveries.Deliveries<number>(queue, loop.nowMs)
      let told = 0
      const targets = Array.from({ length: 1_900 }, (_, index) => index)
      const tell = loop.work(0.05, () => void (told += 1))
      for (let count = 0; count < 50; count++) made.add({ targets: targets.values(), tell, done: () => {} })
      strictEqual(told, 0)
      let longestMs = 0
      while (!loop.isIdle) longestMs = Math.max(longestMs, loop.turn())
      ok(longestMs <= 3, `a piece took ${longestMs} ms`)
      strictEqual(told, 50 * 1_900)
    },
  },
  {
    name: 'each delivery is charged to the subject that watches',
    run(modules) {
      const { subscribe, change, run, charged } = hubScene(modules)
      for (let count = 0; count < 3; count++) subscribe('watcher')
      subscribe('other')
      change()
      change()
      run()
      deepStrictEqual(Object.fromEntries(charged), { watcher: 6, other: 2 })
    },
  },
  {
    name: 'the deliveries of a renewal are also charged to the subject that renews',
    run(modules) {
      const { subscribe, renew, run, charged } = hubScene(modules)
      for (let count = 0; count < 3; count++) subscribe('watcher', { renewals: true })
      renew('leader')
      run()
      deepStrictEqual(Object.fromEntries(charged), { leader: 3, watcher: 3 })
    },
  },
  {
    name: 'a watcher whose subject has used up its deliveries continues later from its position',
    run(modules) {
      const { subscribe, change, run } = hubScene(modules, { budget: 2 })
      const watcher = subscribe('watcher')
      const other = subscribe('other')
      change()
      change()
      change()
      run()
      deepStrictEqual(watcher.told, ['LEADER_CHANGED', 'LEADER_CHANGED'])
      deepStrictEqual(watcher.missed, [3])
      deepStrictEqual(other.missed, [3])
    },
  },
  {
    name: 'a new subscriber receives only newer changes, even while deliveries are pending',
    run(modules) {
      const { subscribe, change, run, hub } = hubScene(modules)
      const early = subscribe('a')
      change()
      const late = subscribe('b')
      deepStrictEqual(late.subscription.position, position(2))
      deepStrictEqual(early.subscription.position, position(1))
      change()
      run()
      strictEqual(early.told.length, 2)
      strictEqual(late.told.length, 1)
      deepStrictEqual(early.subscription.position, hub.feed.position)
    },
  },
  {
    name: 'renewals of a lease are reported once a second, including the last one',
    async run({ renewalNews }) {
      const clock = fakeClock()
      const reported: number[] = []
      const news = new renewalNews.RenewalEvents(clock, () => void reported.push(clock.monotonicMs()))
      const begunMs = clock.monotonicMs()
      const renewed = { ended: false } as unknown as GroupLease
      for (let count = 0; count < 250; count++) {
        news.note(renewed)
        await clock.advance(10)
      }
      await clock.advance(5_000)
      deepStrictEqual(
        reported.map((ms) => ms - begunMs),
        [0, 1_000, 2_000, 3_000],
      )
    },
  },
  {
    name: 'a stall is measured in full even if the clock is read during the stall',
    run({ servingClock }) {
      const clock = fakeClock()
      let stalledMs = 0
      const serving = new servingClock.ServingClock({ ...clock, monotonicMs: () => clock.monotonicMs() + stalledMs })
      for (let count = 0; count < 11; count++) {
        stalledMs += 100
        serving.monotonicMs()
      }
      ok(serving.stalledMs >= 1_000, `${serving.stalledMs} ms`)
      serving.stop()
    },
  },
  {
    name: 'a snapshot of groups with long texts is sent in parts',
    async run(modules) {
      const { hub } = hubScene(modules)
      const long = {
        ...lease,
        metadata: JSON.stringify({ text: 'x'.repeat(4_000) }),
        checkpoint: '\u0001'.repeat(1_365),
      }
      const standing: GroupState = { granted: false, lease: long, highestTerm: 1, freeInMs: 0, seq: 1 }
      const state = { leaders: (ids: readonly string[]) => ids.map(() => standing) } as unknown as Groups
      const groups = Array.from({ length: 1_000 }, (_, index) => `group-${index}`)
      let left: readonly string[] = groups
      let events = 0
      while (left.length > 0) {
        const shown = left === groups ? undefined : { groups: groups.slice(0, -left.length), position: position(1) }
        const part = await modules.snapshot.takeSnapshot(
          { hub, state, clock: fakeClock() },
          { shown, left, from: 'first', hasGap: true },
        )
        const bytes = part?.events.reduce((sum, json) => sum + json.length, 0) ?? 0
        ok(bytes <= 300_000, `a part is ${bytes} bytes long`)
        events += part?.events.length ?? 0
        left = part?.left ?? []
      }
      strictEqual(events, 1_000)
    },
  },
  {
    name: 'a candidate raises the term of a group by at most 2^20 per grant',
    run({ rules }) {
      const codeOf = (afterTerm: number, byAdministrator: boolean) => {
        const claim = { ...campaignClaim, afterTerm, byAdministrator, isFirst: true }
        const ruling = rules.judgeCampaign(new Group('jobs', 7), claim, now)
        return 'write' in ruling ? ruling.write.record.term : ruling.answer
      }
      strictEqual(codeOf(7 + 2 ** 20, false), 8 + 2 ** 20)
      strictEqual((codeOf(8 + 2 ** 20, false) as { code?: string }).code, 'INVALID_REQUEST')
      strictEqual(codeOf(8 + 2 ** 20, true), 9 + 2 ** 20)
    },
  },
  {
    name: 'the total size of the groups of one subject is limited',
    run(modules) {
      const { count, bytes, refusal } = fill(modules, Infinity, 2 ** 20, () => 'many')
      ok(count > 150 && count < 240, `${count} groups`)
      ok(bytes.total <= 2 ** 20)
      strictEqual((refusal as { code: string }).code, 'RATE_LIMITED')
    },
  },
  {
    name: 'the total size of the groups of all subjects is limited',
    run(modules) {
      const { count, bytes } = fill(modules, 2 ** 20, 2 ** 18, (index) => `subject-${index}`)
      ok(count > 150 && count < 240, `${count} groups`)
      ok(bytes.total <= 2 ** 20)
    },
  },
  {
    name: 'an existing group can change its leader even when no bytes are left',
    run({ rules, groupBytes }) {
      const bytes = new groupBytes.GroupBytes(1_100, 1_100)
      const room = (group: Group, record: GroupRecord) => bytes.refusalOf(group, record)
      const group = new Group('jobs', 0)
      const first = rules.judgeCampaign(group, { ...campaignClaim, subject: 'one', isFirst: true }, { ...now, room })
      ok('write' in first)
      bytes.set(group, first.write.record)
      const longer = { ...campaignClaim, nodeId: 'a-longer-name', subject: 'two', isFirst: true }
      const second = rules.judgeCampaign(group, longer, { ...now, room })
      ok('write' in second, JSON.stringify(second))
      bytes.set(group, second.write.record)
      const other = rules.judgeCampaign(new Group('other', 0), longer, { ...now, room })
      ok('answer' in other)
    },
  },
  {
    name: 'a token can be revoked even when no bytes are left',
    run({ rules, groupBytes }) {
      const bytes = new groupBytes.GroupBytes(1, 1)
      const room = (group: Group, record: GroupRecord) => bytes.refusalOf(group, record)
      const claim = { definition: { policy: now.policy, allowedNodes: undefined }, replace: true }
      ok('write' in rules.judgeDefinition(new Group('~revoked:token', 0), claim, { ...now, room }))
      ok('answer' in rules.judgeDefinition(new Group('jobs', 0), claim, { ...now, room }))
    },
  },
  {
    name: 'a group that ended long ago keeps only its term',
    run({ rules }) {
      const ruling = rules.judgeTrim(endedGroup(), 'group', now)
      ok('write' in ruling)
      deepStrictEqual(ruling.write.record, { term: 5, deleted: true })
    },
  },
  {
    name: 'a group that ended long ago keeps its checkpoint but not its metadata',
    run({ rules }) {
      for (const what of ['metadata', 'group'] as const) {
        const ruling = rules.judgeTrim(endedGroup({ checkpoint: 'page 7' }), what, now)
        ok('write' in ruling)
        const { checkpoint, meta, term, node } = ruling.write.record
        deepStrictEqual([checkpoint, meta, term, node], ['page 7', undefined, 5, 'a'])
      }
    },
  },
  {
    name: 'the oldest connection without an identity is closed to make room for a new one',
    run(modules) {
      const { connect, room } = roomScene(modules)
      const one = many(30, () => connect('one'))
      strictEqual(count(one), 10)
      strictEqual(count(one.slice(-10)), 10)
      const others = many(60, (index) => connect(`address-${index}`))
      strictEqual(count(one), 0)
      strictEqual(count(others), 50)
      strictEqual(count(others.slice(-50)), 50)
      strictEqual(room.unknownCount, 50)
    },
  },
  {
    name: 'all addresses of one IPv6 network share the limit of one address, and IPv4-mapped addresses do not',
    run(modules) {
      const { connect } = roomScene(modules)
      const host = many(30, (index) => connect(`2001:db8:0:1::${index.toString(16)}`))
      strictEqual(count(host), 10)
      const neighbor = many(10, () => connect('2001:db8:0:2::1'))
      const plain = many(5, () => connect('192.0.2.1'))
      const mapped = many(10, () => connect('::ffff:192.0.2.1'))
      const other = many(10, () => connect('::ffff:192.0.2.2'))
      deepStrictEqual([count(host), count(neighbor), count(plain), count(mapped), count(other)], [10, 10, 0, 10, 10])
    },
  },
  {
    name: 'a known caller is never disconnected to make room for others, and can always connect',
    run(modules) {
      const { connect, known } = roomScene(modules)
      const callers = many(20, (index) => known(`caller-${index % 2}`))
      const held = many(300, (index) => connect(`address-${index}`))
      callers.push(...many(20, (index) => known(`caller-${index % 2}`)))
      many(300, (index) => connect(`address-${index}`))
      strictEqual(count(callers), 40)
      strictEqual(count(held), 0)
      // When all other connections are identified, there is no room for a new one.
      const full = [...callers, ...many(60, (index) => known(`caller-${index % 3}`))]
      strictEqual(connect('late').isClosed, true)
      strictEqual(count(full), 100)
    },
  },
  {
    name: 'an idle connection is closed soon unless its caller is known',
    run(modules) {
      const { connect, known, room, pass } = roomScene(modules)
      const [silent, busy, caller] = [connect('one'), connect('one'), known('one')]
      const ended = room.begin(busy)
      pass(5_000)
      room.closeIdle()
      deepStrictEqual([silent.isClosed, busy.isClosed, caller.isClosed], [true, false, false])
      ended?.()
      pass(4_999)
      room.closeIdle()
      strictEqual(busy.isClosed, false)
      pass(1)
      room.closeIdle()
      strictEqual(busy.isClosed, true)
    },
  },
]

/** A connection on which requests arrive, and the responses sent on it. */
function packetOf(handle: (request: IncomingMessage, response: ServerResponse) => void) {
  const socket = {
    destroyed: false,
    isPaused: false,
    pause() {
      this.isPaused = true
    },
    resume() {
      this.isPaused = false
    },
  }
  class Response extends EventEmitter {
    head: { readonly status: number; readonly headers: Record<string, string> } | undefined
    writeHead(status: number, headers: Record<string, string>) {
      this.head = { status, headers }
      return this
    }
    end() {}
  }
  const responses: Response[] = []
  return {
    socket,
    responses,
    send(count: number) {
      for (let index = 0; index < count; index++) {
        const response = new Response()
        responses.push(response)
        handle({ socket: socket as unknown as Socket } as IncomingMessage, response as unknown as ServerResponse)
      }
    },
  }
}
