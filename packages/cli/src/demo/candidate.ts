/** One candidate of `tenure demo`, in a process of its own. It campaigns, and reports to its parent. */
import { messageOf } from '@tenure/internal/message'
import { Elector, type ElectionEvent, type Explanation } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { every, now } from '../shared/clock.ts'
import { Cable } from './cable.ts'

/** What its parent can make a candidate do. */
export type CandidateOrder = 'stop' | 'cut' | 'mend'

/** What a candidate reports; all processes read `atMs` from the same clock. */
export type Report = { readonly atMs: number } & (
  | {
      readonly type: 'status'
      readonly isLeader: boolean
      /** Of the last record seen. */
      readonly term: number
      readonly leaseEndsInMs: number
      readonly summary: string
    }
  | { readonly type: 'elected'; readonly term: number }
  | { readonly type: 'lost'; readonly term: number; readonly reason: string }
  | { readonly type: 'error'; readonly message: string }
)

type News<R = Report> = R extends unknown ? Omit<R, 'atMs'> : never

const [, , directory = '', identity = '', leaseDurationMs] = process.argv

const cable = new Cable(fileStore({ directory }))
const elector = new Elector({
  store: cable.store,
  election: 'demo',
  identity,
  leaseDurationMs: Number(leaseDurationMs),
  observer: { onEvent },
})

function onEvent(event: ElectionEvent): void {
  if (event.type === 'elected') report({ type: 'elected', term: event.term })
  if (event.type === 'lost') report({ type: 'lost', term: event.term, reason: event.reason })
  // It gets no answers while it is cut off: that is not news.
  if ((event.type === 'error' || event.type === 'renew-failed') && !cable.isCut) {
    report({ type: 'error', message: messageOf(event.error) })
  }
}

function reportStatus(): void {
  const explanation = elector.explain()
  const { isLeader, leaseEndsInMs = 0 } = explanation
  report({ type: 'status', isLeader, term: elector.leader()?.term ?? 0, leaseEndsInMs, summary: inShort(explanation) })
}

/** The usual cases in words that fit into a line of 80 columns; the library's own words for all others. */
function inShort({ phase, isLeader, term, leader, leaseEndsInMs = 0, summary }: Explanation): string {
  const left = `${(leaseEndsInMs / 1000).toFixed(1)} s`
  if (cable.isCut && isLeader) return `leads term ${term}, hears nothing: stops in ${left}`
  if (cable.isCut) return 'hears nothing, and does not lead'
  if (isLeader) return `leads term ${term}: ${left} unless renewed`
  if (phase === 'standby' && leader) return `waits for ${leader.holder}, term ${leader.term}: ${left} unless renewed`
  return summary
}

function report(news: News): void {
  if (process.connected) process.send?.({ ...news, atMs: now().machineMs } satisfies Report)
}

async function stop(): Promise<void> {
  await elector.stop()
  await cable.store.close?.()
  process.exit()
}

process.on('message', (order: CandidateOrder) => {
  if (order === 'stop') void stop()
  else cable.isCut = order === 'cut'
})
// Without its parent, nothing else would end it.
process.on('disconnect', () => process.exit())
// Ctrl-C reaches the whole group; the parent decides what to do.
process.on('SIGINT', () => {})

elector.start()
every(100, reportStatus)
